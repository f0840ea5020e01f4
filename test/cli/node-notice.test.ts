import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ended, project, start } from './support.ts'

const notice = async (command: string, agent: string): Promise<string> => {
  const env = { npm_command: command, npm_config_user_agent: agent }
  const { code, stdout, stderr } = await ended(
    start(process.execPath, [join(project, 'scripts', 'node-notice.js')], env, project),
  )
  assert.deepEqual([code, stdout], [0, ''])
  return stderr
}

describe('npm install', () => {
  it('prints a single line with the Node.js versions of npm and plinth if npm runs on an old Node.js', async () => {
    for (const command of ['ci', 'install']) {
      const output = await notice(command, 'npm/10.8.2 node/v20.20.2 linux x64 workspaces/false')
      assert.match(
        output,
        /^plinth: npm runs on Node\.js 20; npm start, npm run and npx plinth use 2\d\.\S+, [^\n]+\n$/,
      )
    }
  })

  it('prints nothing if Node.js is recent enough or the command is not an install', async () => {
    assert.equal(await notice('ci', 'npm/11.6.2 node/v24.11.0 linux x64 workspaces/false'), '')
    assert.equal(await notice('pack', 'npm/10.8.2 node/v20.20.2 linux x64 workspaces/false'), '')
    assert.equal(await notice('ci', ''), '')
  })

  it('uses the log level error, set in .npmrc', () => {
    assert.match(readFileSync(join(project, '.npmrc'), 'utf8'), /^loglevel=error$/m)
  })
})

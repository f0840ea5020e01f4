import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { freePort } from '../../src/serving/listeners.ts'
import { ended, eventually, killAll, project, start } from '../cli/support.ts'

const folder = mkdtempSync(join(tmpdir(), 'plinth-image-'))
execFileSync('chmod', ['755', folder])
after(() => {
  killAll()
  rmSync(folder, { recursive: true, force: true })
})

const canMount = spawnSync('unshare', ['--mount', 'mount', '-o', 'remount,bind,ro', '/']).status === 0
const skip = canMount ? false : 'this user may not mount file systems (unshare --mount)'

interface Stage {
  name: string
  steps: { instruction: string; text: string }[]
}

/** Returns the stages of deploy/Dockerfile. */
function stages(): Stage[] {
  const lines = readFileSync(join(project, 'deploy', 'Dockerfile'), 'utf8').split('\n')
  const found: Stage[] = []
  for (const line of lines.filter((text) => text !== '' && !text.startsWith('#'))) {
    const [, instruction = '', text = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? []
    if (instruction === 'FROM') found.push({ name: / AS (\w+)$/.exec(text)?.[1] ?? 'final', steps: [] })
    else found.at(-1)?.steps.push({ instruction, text })
  }
  return found
}

const tools = { PATH: `${dirname(process.execPath)}:${process.env.PATH}` }
/** Returns the local folder that stands in for an absolute path of a stage. */
const place = (stage: string, path: string) => join(folder, stage, path)
const unreachable = /EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED/

/** Replays the COPY and RUN instructions of a stage with this test's Node.js. Throws if a command fails. */
async function replay({ name, steps }: Stage): Promise<void> {
  mkdirSync(place(name, 'app'), { recursive: true })
  for (const { instruction, text } of steps) {
    if (instruction === 'COPY') {
      const [, from, paths = ''] = /^(?:--from=(\w+) )?(.*)$/.exec(text) ?? []
      const names = paths.split(' ')
      const target = join(place(name, 'app'), names.pop() as string)
      for (const path of names) {
        const source = from ? place(from, path) : join(project, path)
        cpSync(source, text.endsWith('/') ? join(target, basename(path)) : target, { recursive: true })
      }
    } else if (instruction === 'RUN') {
      const command = text.replaceAll('/data', place(name, 'data'))
      const { code, stderr, stdout } = await start('sh', ['-c', command], tools, place(name, 'app')).ended
      assert.equal(code, 0, `${command}\n${stdout}${stderr}`)
    }
  }
}

/** Returns the environment variables that the ENV instructions of a stage set. */
const environmentOf = ({ steps }: Stage, stage: string) =>
  Object.fromEntries(
    steps
      .filter(({ instruction }) => instruction === 'ENV')
      .flatMap(({ text }) => text.split(' ').map((pair) => pair.split('=')))
      .map(([name, value]) => [name, value === '/data' ? place(stage, 'data') : value]),
  ) as Record<string, string>

describe('deploy/Dockerfile', () => {
  it('builds a service that runs as an unprivileged user on a read-only file system, and stops on SIGTERM', {
    skip,
    timeout: 600_000,
  }, async (t) => {
    const [build, final] = stages() as [Stage, Stage]
    try {
      await replay(build)
    } catch (error) {
      if (!unreachable.test(String(error))) throw error
      return t.skip('the registry cannot be reached')
    }
    await replay(final)
    const data = place('final', 'data')
    const [entrypoint] = JSON.parse(final.steps.find(({ instruction }) => instruction === 'ENTRYPOINT')?.text ?? '[]')
    const program = place('final', entrypoint)
    const ports = { PLINTH_PORT: String(await freePort()), PLINTH_HTTP_PORT: String(await freePort()) }
    const env = { ...environmentOf(final, 'final'), ...tools, ...ports, PLINTH_HOST: '127.0.0.1' }
    const mounts = `mount --bind ${data} ${data} && mount -o remount,bind,ro /`
    const user = 'setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all'
    const command = `${mounts} && (! touch ${folder}/written) && exec ${user} ${program} serve`
    const service = start('unshare', ['--mount', 'sh', '-c', command], env, place('final', 'app'))
    const healthCheck = final.steps.find(({ instruction }) => instruction === 'HEALTHCHECK')?.text ?? ''
    const [node = '', ...args] = JSON.parse(healthCheck.slice(healthCheck.indexOf('[')))
    const check = () => ended(start(node, args, env))
    await eventually('the health check succeeds', async () => {
      if (service.child.exitCode !== null) throw new Error(JSON.stringify(await service.ended))
      return (await check()).code === 0
    })
    service.child.kill('SIGTERM')
    const { code, stderr, stdout } = await ended(service)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /"msg":"service stopped"/)
    assert.equal((await check()).code, 1)
  })
})

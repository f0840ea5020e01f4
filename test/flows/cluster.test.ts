import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { openPrograms } from '../../scripts/cluster/processes.ts'
import { ended, killAll, project, start } from '../cli/support.ts'
import { hasPostgresPrograms } from '../support/postgres-programs.ts'

after(killAll)

const isInstalled = (program: string, argument: string) => spawnSync(program, [argument]).status === 0
const missing = [
  ...(isInstalled('nginx', '-v') ? [] : ['nginx']),
  ...(isInstalled('redis-server', '--version') ? [] : ['redis-server']),
  ...(hasPostgresPrograms ? [] : ['PostgreSQL']),
]
const skip = missing.length > 0 ? `not installed: ${missing.join(', ')}` : false

const cluster = (...args: string[]) =>
  start(process.execPath, [join(project, 'scripts', 'cluster.ts'), ...args], { PATH: String(process.env.PATH) })

describe('a program started by scripts/cluster.ts', () => {
  it('is killed if its readiness check fails', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-programs-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const isReady = () => Promise.reject(new Error('not ready'))
    const options = { name: 'sleep', command: () => ['sleep', '600'], env: process.env, isReady }
    const program = openPrograms(folder).add(options)
    await assert.rejects(program.start(), /^Error: not ready$/)
    assert.equal(program.isRunning(), false)
  })
})

describe('scripts/cluster.ts', () => {
  it('loses no accepted write while a node is killed and PostgreSQL restarts', { skip, timeout: 300_000 }, async () => {
    const faults = ['--duration', '12s', '--kill-every', '5s', '--restart-postgres', '1']
    const { code, stdout, stderr } = await cluster(...faults).ended
    assert.equal(code, 0, stdout + stderr)
    assert.match(stdout, / [1-9] kills, 1 restarts of PostgreSQL/)
    assert.equal(stdout.match(/ PASS /g)?.length, 8, stdout)
  })

  for (const [args, error] of [
    [['--kill-every', '10'], /^--kill-every 10: expected seconds or minutes, such as 90s or 5m\n$/],
    [['--kill-every', '10s'], /: expected --duration\n$/],
    [['--duration', '1s', '--upgrade-from', 'HEAD', '--kill-every', '1s'], /expected neither --kill-every nor/],
    [['--duration', '1s', '--upgrade-from', 'nothing'], /^--upgrade-from nothing: expected a tag or commit/],
    [['--split', '--nodes', '1'], /^--split: expected --nodes 2 or more\n$/],
  ] as const) {
    it(`refuses ${args.join(' ')} with exit code 1`, async () => {
      const { code, stderr } = await ended(cluster(...args))
      assert.equal(code, 1)
      assert.match(stderr, error)
    })
  }
})

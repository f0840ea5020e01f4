import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Node, startNode } from './nodes.ts'

/** The folder with the sources of this checkout. */
export const checkout = fileURLToPath(new URL('../..', import.meta.url))

const git = (...args: string[]) => spawnSync('git', args, { cwd: checkout, encoding: 'utf8' })

/** An earlier version from the repository's history. */
export interface EarlierVersion {
  name: string
  commit: string
}

/** Finds a tag or commit; an empty `reference` is the newest tag. Throws if there is none. */
export function findEarlier(reference: string): EarlierVersion {
  const name = reference || newestTag()
  const { status, stdout } = git('rev-parse', '--verify', '--quiet', `${name}^{commit}`)
  if (status !== 0) throw new Error(`--upgrade-from ${name}: expected a tag or commit of this repository`)
  return { name, commit: stdout.trim() }
}

/** Extracts a version to `<folder>/earlier` and installs its dependencies; returns that folder. */
export function extractEarlier(folder: string, { commit }: EarlierVersion): string {
  const [code, archive] = [join(folder, 'earlier'), join(folder, 'earlier.tar')]
  mkdirSync(code)
  execFileSync('git', ['archive', '--output', archive, commit], { cwd: checkout })
  execFileSync('tar', ['-xf', archive, '-C', code])
  installDependencies(code)
  return code
}

function newestTag(): string {
  const { status, stdout } = git('describe', '--tags', '--abbrev=0')
  if (status !== 0) throw new Error('--upgrade-from: there is no tag, so name a commit, such as --upgrade-from HEAD~50')
  return stdout.trim()
}

/** Links the dependencies of this checkout if the lockfiles are the same; otherwise installs them. */
function installDependencies(code: string): void {
  const lockOf = (folder: string) => readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (lockOf(code) === lockOf(checkout)) {
    symlinkSync(join(checkout, 'node_modules'), join(code, 'node_modules'))
    return
  }
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`
  const flags = ['--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  execFileSync('npm', ['ci', ...flags], {
    cwd: code,
    env: { ...process.env, PATH },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

export interface UpgradeOptions {
  nodes: readonly Node[]
  /** The folder with the new sources. */
  code: string
  say: (line: string) => void
}

const settleMs = 2_000

/** Replaces the nodes one by one, with a pause after each. Returns a message for each nonzero exit code. */
export async function upgradeNodes({ nodes, code, say }: UpgradeOptions): Promise<string[]> {
  const wrong: string[] = []
  for (const node of nodes) {
    const begunMs = performance.now()
    const exitCode = await node.program.stop('SIGTERM')
    if (exitCode !== 0) wrong.push(`${node.name} exited with ${exitCode} after SIGTERM`)
    const stoppedMs = performance.now()
    node.useCode(code)
    await startNode(node)
    const [stopMs, startMs] = [stoppedMs - begunMs, performance.now() - stoppedMs].map(Math.round)
    say(`replaced ${node.name}: stopped in ${stopMs} ms, ready after ${startMs} ms`)
    await sleep(settleMs)
  }
  return wrong
}

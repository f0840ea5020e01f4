import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const usage = `Runs the tests, several files in one process, because importing the service takes longer than most files.

  node scripts/suite.ts [--fast | --browser] [options of node --test]

  --fast     only the tests without .slow in their name, without test/cli
  --browser  the tests in Chromium, with .browser in their name, which are left out otherwise

The tests keep their files in memory (/dev/shm) if there are 2 GiB for them, because most of their time would be syncs to
the disk. TMPDIR, if set, is used instead.

A file is a suite of its process, so its hooks apply to its own tests only. A file runs in its own process if it is in
test/cli, has .browser in its name, or begins with the comment
  // Runs in its own process: REASON
`

const root = fileURLToPath(new URL('..', import.meta.url))
const alone = '// Runs in its own process:'
const maxFilesPerProcess = 64
const processes = 3
const memory = '/dev/shm'
const minMemoryBytes = 2 * 1024 ** 3

/** Returns true if a test file needs its own process. */
const isAlone = (file: string) =>
  file.startsWith('test/cli/') || file.includes('.browser.') || readFileSync(join(root, file), 'utf8').startsWith(alone)

/**
 * Divides the files into groups of nearly equal size. The number of groups is a multiple of the number of processes.
 */
function groupsOf(files: readonly string[]): string[][] {
  const count = Math.ceil(files.length / maxFilesPerProcess / processes) * processes
  // Files with adjacent names often contain similar tests, so they go to different groups.
  return Array.from({ length: count }, (_, n) => files.filter((_file, index) => index % count === n))
}

/** Returns the source of a module that runs these test files, each as a suite. */
const entryFor = (files: readonly string[]) =>
  `import { describeFiles } from ${JSON.stringify(new URL('suite-process.ts', import.meta.url).href)}
await describeFiles(${JSON.stringify(files)}, ${!isFast && existsSync(join(root, 'build', 'sources.txt'))})
`

const options = process.argv.slice(2)
if (options.includes('--help')) {
  process.stdout.write(usage)
  process.exit()
}
const isFast = options.includes('--fast')
const isBrowser = options.includes('--browser')
const files = globSync('test/**/*.test.ts', { cwd: root })
  .filter((file) => !file.startsWith('test/flows/'))
  .filter((file) => file.includes('.browser.') === isBrowser)
  .filter((file) => !isFast || !(file.includes('.slow.') || file.startsWith('test/cli/')))
  .sort()
// The processes and threads that tests start load the bundle twice as fast as the sources. The script rebuilds the
// bundle only if it is outdated.
if (!isFast) execFileSync(process.execPath, [join(root, 'scripts', 'build-code.js')], { stdio: 'inherit' })
const cache = join(root, 'node_modules', '.cache')
mkdirSync(cache, { recursive: true })
const folder = mkdtempSync(join(cache, 'suite-'))
const entries = groupsOf(files.filter((file) => !isAlone(file))).map((group, index) => {
  const entry = join(folder, `group-${String(index + 1).padStart(2, '0')}.mjs`)
  writeFileSync(entry, entryFor(group))
  return entry
})
/** Returns whether temporary files can be stored in memory: TMPDIR is not set, and there is enough space. */
function fitsInMemory(): boolean {
  if (process.env.TMPDIR !== undefined || !existsSync(memory)) return false
  const { bavail, bsize } = statfsSync(memory)
  return bavail * bsize >= minMemoryBytes
}

const temporary = mkdtempSync(join(fitsInMemory() ? memory : tmpdir(), 'plinth-tests-'))
// PgBouncer and PostgreSQL run as another user, which must be able to read this folder.
chmodSync(temporary, 0o755)
// The runner passes these flags to the test processes. Larger generations need fewer garbage collections: most processes
// end before the old generation is full.
const heap = ['--min-semi-space-size=64', '--max-semi-space-size=64', '--initial-old-space-size=768']
const flags = [...heap, '--single-threaded-gc']
const args = [
  `--test-concurrency=${processes}`,
  ...options.filter((option) => !['--fast', '--browser'].includes(option)),
]
// A service with one thread starts faster. Tests that need several threads set PLINTH_THREADS themselves.
const env = { PLINTH_THREADS: '1', ...process.env, NODE_COMPILE_CACHE: join(cache, 'compile'), TMPDIR: temporary }
const run = spawn(process.execPath, [...flags, '--test', ...args, ...entries, ...files.filter(isAlone)], {
  ...{ cwd: root, env, stdio: 'inherit' },
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => run.kill(signal))
const [code] = await once(run, 'close')
for (const made of [folder, temporary]) rmSync(made, { recursive: true, force: true })
process.exitCode = code ?? 1

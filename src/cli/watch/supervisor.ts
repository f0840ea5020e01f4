import { join, resolve } from 'node:path'
import closeWithGrace from 'close-with-grace'
import type { Config } from '../../config/config.ts'
import { refuseUnsafeProcess } from '../../config/production-checks.ts'
import { later, monotonic } from '../../lifecycle.ts'
import { refuseListening } from '../../serving/listeners.ts'
import { findDefinition } from '../load-definition.ts'
import { stopLimitMs, stopWithParent } from '../serve.ts'
import { type WatchedFiles, watchFiles } from './files.ts'
import { type Gate, openGate } from './gate.ts'
import { launch, type ServedProcess } from './launch.ts'

interface WatchOptions {
  config: Config
  /** The definition file named on the command line, if any. */
  named: string | undefined
  /** The environment without the variables of `.env`, which each process reads again. */
  env: NodeJS.ProcessEnv
}

const report = (text: string) => void process.stderr.write(`plinth: ${text}\n`)

/**
 * Serves a definition until SIGTERM or Ctrl-C. After each change to its files, .env or package.json, a new process
 * serves it. The port stays open, and connections wait while one process replaces another. If a changed definition
 * cannot be loaded, the previous one is still served.
 */
export async function serveAndWatch({ config, named, env }: WatchOptions): Promise<void> {
  refuseUnsafeProcess(config)
  const { host, port } = config.http
  const gate = await openGate({ host, port }).catch(refuseListening({ host, port, setting: 'PLINTH_PORT' }))
  const files = watchFiles(later)
  const { file } = findDefinition(named ?? config.service.definitionFile, process.cwd())
  // Each process reads .env and package.json when it starts.
  const names = ['.env', 'package.json', ...(file === null ? ['service.ts', 'service.js'] : [])]
  files.add([...names.map((name) => join(process.cwd(), name)), ...(file === null ? [] : [resolve(file)])])
  const options = {
    args: ['serve-watched', ...(named === undefined ? [] : [named])],
    env: { ...env, PLINTH_PORT: String(gate.port), PLINTH_DRAIN: '0' },
    onImported: files.add,
  }
  const processes = new Set<ServedProcess>()
  const begin = () => {
    const begun = launch(options)
    processes.add(begun)
    void begun.ended.then(() => processes.delete(begun))
    return begun
  }
  const stop = async () => {
    files.close()
    gate.close()
    await Promise.all([...processes].flatMap((one) => [one.end(), one.ended]))
  }
  const { close } = closeWithGrace({ delay: stopLimitMs, logger: false }, stop)
  stopWithParent(close)
  await replaceAfterChanges(begin, files, gate)
}

/** Starts a serving process and replaces it after each change; returns once `files` is closed. */
async function replaceAfterChanges(begin: () => ServedProcess, files: WatchedFiles, gate: Gate): Promise<void> {
  let serving: ServedProcess | null = null
  let hasStarted = false
  // Started in advance, because importing Plinth's own modules takes most of the startup time.
  let next = begin()
  for (let changed: string[] | null = null; ; ) {
    const beganMs = monotonic()
    if (await next.load()) {
      gate.hold()
      await serving?.end()
      serving = (await next.serve(!hasStarted)) ? next : null
      if (serving) {
        gate.open(serving.forward)
        void serving.ended.then(() => serving === next && gate.refuse())
        if (changed)
          report(`restarted in ${Math.round(monotonic() - beganMs)} ms after a change of ${changed.join(', ')}`)
        hasStarted = true
      } else gate.refuse()
    }
    if (serving !== next) report(serving ? 'the earlier definition is still served' : 'waiting for a change')
    next = begin()
    changed = await files.changed()
    if (changed.length === 0) return
    if (changed.includes('.env') || changed.includes('package.json')) {
      await next.end()
      next = begin()
    }
  }
}

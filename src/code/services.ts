import type { Log } from '../logging/entries.ts'
import type { CodeLog } from './context-types.ts'
import type { JobQueue } from './jobs.ts'

/** What a service provides to the author's code, except the database. */
export interface CodeServices {
  jobs: JobQueue
  fetch: typeof globalThis.fetch
  log: CodeLog
  /** Monotonic clock in ms. */
  monotonic: () => number
  /** Called with the name of the code that starts or resumes, and with an empty string when the code ends. */
  running?: ((label: string) => void) | undefined
}

/** Returns the log for the author's code. */
export const codeLogIn = (log: Log): CodeLog => ({
  info: ({ code, ...details }: { code?: string }, text) => log.info({ code, text, details }, 'logged by code'),
  warn: ({ code, ...details }: { code?: string }, text) => log.warn({ code, text, details }, 'warning of code'),
  error: ({ code, ...details }: { code?: string }, text) => log.error({ code, text, details }, 'error of code'),
})

/**
 * Logs unhandled rejections, which the author's code may cause and which would otherwise end the process. Returns the
 * function that stops the logging.
 */
export function logRejections(log: Log): () => void {
  const report = (err: unknown) => log.error({ what: 'unawaited promise', err }, 'background work failed')
  process.on('unhandledRejection', report)
  return () => void process.off('unhandledRejection', report)
}

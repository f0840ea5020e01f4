import { type Logger, pino } from 'pino'
import { accessTexts, type WriteAccessLine } from '../http/server/access-log.ts'
import { type LogSink, logSink } from '../http/server/log-sink.ts'
import { readableLine } from './log-lines.ts'
import { type Output, terminalOf } from './terminal.ts'

/** A running service's logger, and its access log with one line per request. */
export interface Logs {
  log: Logger
  access: WriteAccessLine
  /** Writes buffered lines. */
  flush: () => void
}

export interface LogsOptions {
  out: Output
  env: NodeJS.ProcessEnv
  /** Milliseconds since the epoch. */
  now: () => number
}

/** Opens the logs: unbuffered human-readable lines on a terminal, otherwise buffered JSON lines. */
export function openLogs(level: string, { out, env, now }: LogsOptions): Logs {
  const { write, flush } = out.isTTY ? readable(out, env) : logSink(out)
  const timestamp = () => `,"time":"${new Date(now()).toISOString()}"`
  const log = pino({ level, timestamp }, { write })
  const textOf = accessTexts()
  const access: WriteAccessLine = (line) => write(textOf(line, now()))
  return { log, access: log.isLevelEnabled('info') ? access : () => {}, flush }
}

function readable(out: Output, env: NodeJS.ProcessEnv): LogSink {
  const text = readableLine(terminalOf(out, env).paint)
  return { write: (line) => void out.write(text(line)), flush: () => {} }
}

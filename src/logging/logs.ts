import { pino } from 'pino'
import { accessTexts, type WriteAccessLine } from '../http/server/access-log.ts'
import { type LogSink, logSink } from '../http/server/log-sink.ts'
import type { Log } from './entries.ts'
import { readableLine } from './log-lines.ts'
import { errorFields, redactor } from './redact.ts'
import { type Output, terminalOf } from './terminal.ts'

/** A running service's logger, and its access log with one line per request. */
export interface Logs {
  log: Log
  access: WriteAccessLine
  /** Writes buffered lines. */
  flush: () => void
}

export interface LogsOptions {
  out: Output
  env: NodeJS.ProcessEnv
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Secrets to mask in lines that contain an error. */
  secrets?: readonly string[]
}

/** Opens the logs: unbuffered human-readable lines on a terminal, otherwise buffered JSON lines. */
export function openLogs(level: string, { out, env, now, secrets = [] }: LogsOptions): Logs {
  const { write, flush } = out.isTTY ? readable(out, env) : logSink(out)
  const timestamp = () => `,"time":"${new Date(now()).toISOString()}"`
  const redact = redactor(secrets)
  const serializers = { err: (error: unknown) => errorFields(error) }
  const log = pino({ level, timestamp, serializers }, { write: (line) => write(redact(line)) })
  const textOf = accessTexts()
  const access: WriteAccessLine = (line) => write(textOf(line, now()))
  return { log: log as Log, access: log.isLevelEnabled('info') ? access : () => {}, flush }
}

function readable(out: Output, env: NodeJS.ProcessEnv): LogSink {
  const text = readableLine(terminalOf(out, env).paint)
  return { write: (line) => void out.write(text(line)), flush: () => {} }
}

import type { Paint, Style } from './terminal.ts'

interface LoggedError {
  message?: string
  stack?: string
  cause?: LoggedError
}

interface Line {
  level: number
  time: string
  msg?: string
  err?: LoggedError
  [name: string]: unknown
}

const labels: [from: number, label: string, style: Style][] = [
  [50, 'ERROR', 'red'],
  [40, 'WARN', 'yellow'],
  [30, 'INFO', 'green'],
  [0, 'DEBUG', 'dim'],
]
/** Fields that are not listed after the message, because every line contains them or they are formatted separately. */
const common = new Set(['level', 'time', 'msg', 'err', 'pid', 'hostname'])

/**
 * Returns a function that formats a JSON log line for people: the local time, then the request, or the message and its
 * fields.
 */
export function readableLine(paint: Paint): (json: string) => string {
  return (json) => {
    const line = JSON.parse(json) as Line
    const text = typeof line.status === 'number' ? requestText(line, paint) : messageText(line, paint)
    return `${paint('dim', clockTime(line.time))}  ${text}\n`
  }
}

const clockTime = (time: string): string => {
  const at = new Date(time)
  const [hours, minutes, seconds] = [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits)
  return `${hours}:${minutes}:${seconds}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

const twoDigits = (value: number) => String(value).padStart(2, '0')

/** Replaces control characters except line feeds, so that logged text cannot move the cursor or change colors. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it replaces
const visible = (text: string) => text.replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/g, '�')

function requestText({ status, method, path, ms, bytes, errorCode, client }: Line, paint: Paint): string {
  const target = visible(`${String(method).padEnd(6)} ${path}`)
  const size = bytes === undefined ? '' : `  ${sizeOf(Number(bytes))}`
  const details = [`${ms} ms${size}`, errorCode, client].filter((part) => part !== undefined).join('  ')
  return `${paint(styleOf(Number(status)), String(status))}  ${target}  ${paint('dim', visible(details))}`
}

const styleOf = (status: number): Style => (status >= 500 ? 'red' : status >= 400 ? 'yellow' : 'green')

const sizeOf = (bytes: number) => (bytes < 1_000 ? `${bytes} B` : `${(bytes / 1_000).toFixed(1)} kB`)

function messageText({ level, msg, err, ...fields }: Line, paint: Paint): string {
  const [, label, style] = labels.find(([from]) => level >= from) ?? [0, 'DEBUG', 'dim']
  const pairs = Object.entries(fields)
    .filter(([name]) => !common.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const trace = err && `\n${traceOf(err)}`.replaceAll('\n', '\n    ')
  const details = pairs.length > 0 ? `  ${paint('dim', visible(pairs.join(' ')))}` : ''
  return `${paint(style, label)}  ${visible(msg ?? '')}${details}${trace ? paint('dim', visible(trace)) : ''}`
}

const traceOf = ({ stack, message, cause }: LoggedError): string =>
  `${stack ?? message}${cause ? `\ncaused by: ${traceOf(cause)}` : ''}`

import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { Config } from '../config/config.ts'
import { databaseUrlOf } from '../config/storage.ts'
import type { Definition } from '../definition/service.ts'
import { openResults } from '../files/open.ts'
import { areas, type Status } from '../health/check.ts'
import { type CheckResult, type ExamineOptions, examine, type HealthReport } from '../health/examine.ts'
import { type Output, type Style, terminalOf } from '../logging/terminal.ts'
import { readSealer } from '../storage/data-keys/open.ts'
import { openReadOnly } from '../storage/open.ts'
import { existingMasterKey } from '../stores.ts'

export interface DoctorOptions {
  deep?: boolean
  json?: boolean
  strict?: boolean
}

const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/**
 * Checks a service, whether or not it is running, and prints the findings. Changes nothing. The exit code is 1 if a
 * check fails or, with `strict`, if a check warns.
 */
export async function doctor(config: Config, definition: Definition, options: DoctorOptions): Promise<void> {
  const { deep = false, json = false, strict = false } = options
  const dataDir = resolve(config.storage.dataDir)
  const url = databaseUrlOf(config.storage)
  const report = await examine({
    ...{ config, definition, dataDir, runtime: process, isDeep: deep },
    ...{ now: Date.now, monotonic: () => performance.now(), later, openResults },
    readSealer: sealerOf(config, dataDir),
    openDatabase: () => openReadOnly(url, { isUnlimited: deep }),
  })
  const isFailure = report.status === 'fail' || (strict && report.status === 'warn')
  process.exitCode = isFailure ? 1 : 0
  const text = json ? `${JSON.stringify(report, null, 2)}\n` : textOf(report, process.stdout, process.env)
  // A connection to a server that has stopped responding would keep the process alive.
  process.stdout.write(text, () => process.exit())
}

/** Returns a function that reads the keys in the database; it resolves to null if there is no usable master key. */
function sealerOf({ storage }: Config, dataDir: string): ExamineOptions['readSealer'] {
  const masterKey = () => {
    try {
      return existingMasterKey(storage.masterKey, dataDir)
    } catch {
      return undefined
    }
  }
  return async (read) => {
    const key = masterKey()
    return key === undefined ? null : readSealer(read, key, (size) => randomBytes(size))
  }
}

const styles: Record<Status, Style> = { pass: 'green', warn: 'yellow', fail: 'red' }
const gap = '  '
const minTextWidth = 30

/** Formats a report, grouped by area. On a terminal, wraps the text to its width. */
export function textOf({ checks }: HealthReport, out: Output, env: NodeJS.ProcessEnv): string {
  const { paint } = terminalOf(out, env)
  const titleWidth = Math.max(...checks.map(({ title }) => title.length))
  const indent = gap.length + 'pass'.length + gap.length + titleWidth + gap.length
  const width = out.isTTY ? Math.max(minTextWidth, (out.columns || 80) - indent) : Number.POSITIVE_INFINITY
  const below = (text: string) => wrapped(text, width).join(`\n${' '.repeat(indent)}`)
  const lineOf = ({ status, title, detail, cure }: CheckResult) => {
    const line = [paint(styles[status], status), title.padEnd(titleWidth), below(detail)].join(gap)
    return `${gap}${line}\n${cure ? `${' '.repeat(indent)}${paint('cyan', below(`→ ${cure}`))}\n` : ''}`
  }
  const groups = areas.flatMap((area) => {
    const own = checks.filter((check) => check.area === area)
    return own.length === 0 ? [] : [`${paint('bold', area)}\n${own.map(lineOf).join('')}`]
  })
  return `${groups.join('\n')}\n${summary(checks)}\n`
}

function summary(checks: readonly CheckResult[]): string {
  const numberOf = (status: Status) => checks.filter((check) => check.status === status).length
  const [warnings, failures] = [numberOf('warn'), numberOf('fail')]
  return [
    `${numberOf('pass')} passed`,
    `${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`,
    `${failures} ${failures === 1 ? 'failure' : 'failures'}`,
  ].join(', ')
}

/** Breaks a text at spaces into lines of at most `width` characters; longer words stay whole. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}

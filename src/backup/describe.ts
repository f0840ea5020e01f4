import type { ShowProgress } from '../cli/demo/screen.ts'
import type { Entry, Manifest } from './archive/manifest.ts'
import type { BackupProgress } from './create.ts'
import { engineName } from './target.ts'

const number = new Intl.NumberFormat('en')
const units = ['bytes', 'kB', 'MB', 'GB', 'TB']

/** Formats a byte count as text such as `3.4 MB`. */
export function sizeText(bytes: number): string {
  const power = bytes < 1_000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1)
  return `${power === 0 ? bytes : (bytes / 1_000 ** power).toFixed(1)} ${units[power]}`
}

/** Returns a progress callback that shows the bytes and the rate of each step. `monotonic` returns ms. */
export function progressShown(show: ShowProgress, monotonic: () => number) {
  let current = { step: '', startedMs: 0 }
  return ({ step, doneBytes, totalBytes }: BackupProgress): void => {
    if (step !== current.step) current = { step, startedMs: monotonic() }
    const seconds = (monotonic() - current.startedMs) / 1_000
    const rate = seconds > 0.5 ? `, ${sizeText(Math.round(doneBytes / seconds))}/s` : ''
    const total = totalBytes === null ? '' : ` of ${sizeText(totalBytes)}`
    show(`${step} ${sizeText(doneBytes)}${total}${rate}`, totalBytes ? doneBytes / totalBytes : undefined)
  }
}

/** Returns the description of a backup and its content, as the members of the JSON output. */
export function summaryOf(backup: Manifest & { sizeBytes: number; isEncrypted: boolean }) {
  const { entries, tables, missingResults, damagedResults, masterKey } = backup
  const part = (name: string) => entries.filter((entry) => entry.name.startsWith(name))
  const sum = (some: readonly Entry[]) => some.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0)
  const [results, keys] = [part('results/'), part('keys/')]
  return {
    ...{ takenAt: backup.takenAt, version: backup.plinth, engine: backup.engine, encrypted: backup.isEncrypted },
    ...{ sizeBytes: backup.sizeBytes, migration: backup.migrations.at(-1) ?? null, resources: backup.resources },
    database: {
      sizeBytes: sum(part('database.')),
      rows: Object.values(tables).reduce((rows, more) => rows + more, 0),
      tables,
    },
    results: { count: results.length, sizeBytes: sum(results), missing: missingResults, damaged: damagedResults },
    keys: keys.map(({ name }) => name.slice('keys/'.length)),
    masterKey: masterKey?.fingerprint ?? null,
  }
}

type Summary = ReturnType<typeof summaryOf>

/** Formats a number with its noun, such as `1 row`. */
export const count = (n: number, one: string, many = `${one}s`) => `${number.format(n)} ${n === 1 ? one : many}`

/** Returns the description as human-readable lines. */
export function summaryLines(summary: Summary, nowMs: number): string[] {
  const { takenAt, version, engine, encrypted, database, results, keys, resources, masterKey } = summary
  const rowsOf = (name: string) => `${name} ${number.format(database.tables[name] ?? 0)}`
  const missing = results.missing.length > 0 ? `, ${count(results.missing.length, 'missing', 'missing')}` : ''
  const damaged = results.damaged.length > 0 ? `, ${count(results.damaged.length, 'damaged', 'damaged')}` : ''
  const key = masterKey === null ? '' : ` (master key ${masterKey})`
  return [
    `Taken      ${takenAt} (${ageText(nowMs - Date.parse(takenAt))} ago)`,
    `Made by    Plinth ${version}, on ${engineName(engine)}${encrypted ? ', encrypted' : ', not encrypted'}`,
    `Database   ${count(database.rows, 'row')} in ${count(Object.keys(database.tables).length, 'table')}, ${sizeText(database.sizeBytes)}`,
    ...(resources.length > 0 ? [`Resources  ${resources.map(rowsOf).join(', ')}`] : []),
    `Results    ${count(results.count, 'file')}, ${sizeText(results.sizeBytes)}${missing}${damaged}`,
    `Keys       ${keys.length > 0 ? keys.join(', ') : 'none'}${key}`,
  ]
}

const durations: [name: string, ms: number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
]

/** Formats a duration in its largest unit, such as `3 days`. */
export function ageText(ms: number): string {
  const [name, unitMs] = durations.find(([, unit]) => ms >= unit) ?? ['second', 1_000]
  return count(Math.max(0, Math.floor(ms / unitMs)), name)
}

import type { ClusterOptions } from './options.ts'
import type { RunResult } from './run.ts'
import { percentile } from './tally.ts'

const maxWrong = 20

/** Returns the lines of the summary: what happened, then PASS or FAIL for each promise. */
export function summaryOf(result: RunResult, { nodes, durationMs, perSecond }: ClusterOptions): string[] {
  const { started, tally, faults, checks } = result
  const { kills, postgresRestarts, failedStarts } = faults
  const ms = (n: number) => `${percentile(tally.times, n).toFixed(0)} ms`
  const rows: [string, string][] = [
    ['load', `${started} actions in ${(durationMs ?? 0) / 1_000} s (${perSecond}/s) on ${nodes} nodes`],
    ['faults', `${kills} kills, ${postgresRestarts} restarts of PostgreSQL, ${failedStarts} failed starts`],
    ...[...tally.counts].toSorted().map(([fate, count]): [string, string] => [`  ${fate}`, String(count)]),
    ['times of successes', `p50 ${ms(50)}, p99 ${ms(99)}, longest ${ms(100)}`],
    ['longest pause', `${Math.round(tally.longestGapMs)} ms between two successes`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const lines = rows.map(([name, text]) => `${name.padEnd(width)}  ${text}`)
  for (const { promise, cases, wrong } of checks) {
    lines.push(`${wrong.length === 0 ? 'PASS' : 'FAIL'}  ${promise}: ${cases} cases, ${wrong.length} wrong`)
    lines.push(...wrong.slice(0, maxWrong).map((text) => `      ${text}`))
  }
  return lines
}

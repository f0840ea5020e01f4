import { hostname } from 'node:os'
import { extname } from 'node:path'
import type { Anchor } from '../audit/archives.ts'
import type { Config } from '../config/config.ts'
import { byArea, worst } from '../health/check.ts'
import type { CheckResult, HealthReport } from '../health/examine.ts'
import type { ReadHealth } from '../health/reader.ts'
import { runThread } from '../run-thread.ts'
import type { Database } from '../storage/database.ts'
import { type Inspection, inspection } from './inspection.ts'

/**
 * Optional parts of a verification of the audit log: an entry that must exist, and whether to verify the archived
 * months.
 */
export interface AuditInput {
  expect?: Anchor
  archives: boolean
}

/** The result of a verification of the audit log. */
export interface AuditResult {
  intact: boolean
  /** The sequence number of the newest entry. */
  entries?: number
  /** The newest entry. A later verification can check that the log still contains it. */
  checkpoint?: Anchor
  /** The number of verified archives. */
  archives?: number
  altered?: { sequence?: number; reason: string }
}

/** The input of an inspection thread: it verifies the audit log or, if `audit` is null, runs the deep health checks. */
export interface InspectionData {
  config: Config
  dataDir: string
  audit: AuditInput | null
}

/** The full data checks that operators can start. */
export interface Inspections {
  health: Inspection<null, HealthReport>
  audit: Inspection<AuditInput, AuditResult>
}

export interface InspectionsOptions {
  db: Database
  config: Config
  dataDir: string
  readHealth: ReadHealth
  now: () => number
  onError: (error: unknown) => void
}

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)

/** Creates the inspections of a service; each runs in a separate thread. */
export function inspections(options: InspectionsOptions): Inspections {
  const { db, config, dataDir, readHealth, now, onError } = options
  const shared = { db, node: `${hostname()} ${process.pid}`, now, onError }
  const inThread = <Result>(audit: AuditInput | null, signal: AbortSignal) =>
    runThread<Result>({ program, data: { config, dataDir, audit } satisfies InspectionData, signal })
  return {
    health: inspection({
      ...{ ...shared, name: 'health' },
      run: async (_, signal) => {
        const deep = await inThread<CheckResult[]>(null, signal)
        const report = await readHealth()
        if (report === null) throw new Error('The other checks take too long')
        return merged(report, deep)
      },
    }),
    audit: inspection({
      ...{ ...shared, name: 'audit' },
      run: (input, signal) => inThread<AuditResult>(input, signal),
    }),
  }
}

/** Returns the report with the deep results added; they replace the results with the same ids. */
function merged(report: HealthReport, deep: readonly CheckResult[]): HealthReport {
  const replaced = new Set(deep.map(({ id }) => id))
  const checks = [...report.checks.filter(({ id }) => !replaced.has(id)), ...deep].toSorted(byArea)
  return { ...report, status: worst(checks.map(({ status }) => status)), checks }
}

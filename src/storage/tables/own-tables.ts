import { snake } from '../rows/column-names.ts'
import type { Tables } from './tables.ts'

/** The tables of the service itself. */
const typedTables = {
  ...{ users: true, products: true, books: true, jobs: true, tasks: true, webhooks: true, accountSecrets: true },
  ...{ events: true, deliveries: true, deliveryLanes: true, deliveryOwners: true, deliveryDrops: true, attempts: true },
  ...{ webhookStatistics: true },
  ...{ requestCounts: true, versionCalls: true, limitWindows: true, quotaUses: true, settings: true },
  ...{ resourceTables: true, schemaChanges: true, answers: true, apiKeys: true, auditEntries: true, auditHead: true },
  ...{ clients: true, authRecords: true, signingKeys: true, accounts: true, invitations: true, consents: true },
  ...{ loginTries: true, backups: true, dataKeys: true, nodes: true, auditArchives: true, deletedRows: true },
  ...{ storedFiles: true, rowChanges: true, rowWatches: true },
  ...{ loginTries: true, backups: true, dataKeys: true, nodes: true, auditArchives: true },
  ...{ declaredJobs: true, jobSchedules: true },
  ...{ metricSamples: true, traffic: true, requestLog: true },
} satisfies Record<keyof Tables, true>

const ownTables = new Set([
  ...Object.keys(typedTables).map(snake),
  ...['migrations', 'counters', 'search_indexes', 'search_changes', 'change_positions'],
])

/** Returns true for tables of the service and of the database engines. */
export const isOwnTable = (name: string): boolean => ownTables.has(name) || /^(sqlite|pg)_/.test(name)

import { randomBytes } from 'node:crypto'
import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { type OnClose, wall } from '../lifecycle.ts'
import type { Log } from '../logging/entries.ts'
import { logStores, statementsIn } from '../logging/notices.ts'
import { checkReports } from '../reports/generate/check.ts'
import { openServedStores, openThreadStores } from '../served-stores.ts'
import type { SharedClock } from '../storage/clock.ts'
import type { OnCommit } from '../storage/database.ts'
import { existingMasterKey, type Sharing, type Stores } from '../stores.ts'
import { nodeFacts } from './node.ts'
import { checkBeforeMigration, registerNode } from './nodes.ts'

interface OpeningData extends Sharing {
  version: string
  log: Log
  onCommit: OnCommit
  onClose: OnClose
  /** Whether the main thread has already migrated and locked the database. */
  isPrepared?: boolean
}

/**
 * Opens the database of a node, logs the changes to its tables, checks the reports and schedules, and starts creating
 * text indexes.
 */
export async function openData(
  config: Config,
  declared: Definition,
  { version, log, onCommit, onClose, ...shared }: OpeningData,
) {
  const notices = logStores(log)
  const { isPrepared = false, ...sharing } = shared
  const callbacks = { now: wall, ...notices, onCommit }
  if (isPrepared) {
    const { close, ...stores } = await openThreadStores(config, declared, sharing, callbacks)
    onClose(close)
    return stores
  }
  const { close, definition, ...stores } = await openServedStores(
    config,
    declared,
    {
      ...callbacks,
      beforeMigration: (db, masterKey) =>
        checkBeforeMigration(db, () => nodeFacts({ config, definition: declared, masterKey, version })),
    },
    sharing,
  )
  onClose(close)
  for (const statement of statementsIn(stores.migrations)) log.info({ statement }, 'resource table changed')
  await Promise.all([checkReports(stores.db, definition.reports), checkSchedules(definition)])
  onClose(await ensureTextIndexes(stores, definition, notices))
  return { definition, ...stores }
}

/** Checks the schedules of a definition. Loads their code only if there are any. */
async function checkSchedules({ code: { schedules } }: Definition): Promise<void> {
  if (schedules.length > 0) await (await import('../code/run-jobs.ts')).checkSchedules(schedules)
}

/**
 * Starts creating the text indexes; returns a function that stops the work. Loads the PostgreSQL client only if needed.
 */
async function ensureTextIndexes(
  { db }: Pick<Stores, 'db'>,
  { tables }: Definition,
  { onError }: Pick<ReturnType<typeof logStores>, 'onError'>,
): Promise<() => Promise<void>> {
  if (db.engine.name !== 'postgres') return async () => {}
  const postgres = await import('../storage/postgres/text-index.ts')
  return postgres.ensureTextIndexes({ db, tables, onError })
}

type Joining = Pick<Stores, 'db' | 'dataDir'> & Pick<OpeningData, 'version' | 'log' | 'onClose'>

/**
 * Registers this process as a node until the service closes; returns the node's id. Throws `ConfigError` if the process
 * does not agree with a live node, so call this before the queue is opened.
 */
export async function addNode(
  config: Config,
  definition: Definition,
  { db, dataDir, version, log, onClose }: Joining,
  clock: SharedClock,
): Promise<string> {
  const masterKey = existingMasterKey(config.storage.masterKey, dataDir) ?? Buffer.alloc(0)
  const { id, leave } = await registerNode({
    ...{ db: db.reserved, clock, random: randomBytes },
    facts: nodeFacts({ config, definition, masterKey, version }),
    onDiffering: (differences) => log.warn({ differences }, 'nodes differ'),
    onError: (err) => log.error({ what: 'nodes', err }, 'background work failed'),
  })
  onClose(leave)
  return id
}

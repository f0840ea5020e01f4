import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import { openResults } from '../../src/files/open.ts'
import { type ExamineOptions, examine, type HealthReport } from '../../src/health/examine.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { openReadOnly } from '../../src/storage/open.ts'
import { muchLater } from '../support/timers.ts'

export const seal = sealer(Buffer.alloc(32, 1), randomBytes)
export const production = { PLINTH_PROFILE: 'production', PLINTH_BASE_URL: 'https://api.example.com' }

export type Environment = Record<string, string>

/** Creates a temporary data folder with mode 0700. */
export function newFolder(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-health-'))
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/**
 * Runs the health checks of a service with these settings. By default, the data folder is empty and there are no deep
 * checks.
 */
export async function examined(env: Environment, changes: Partial<ExamineOptions> = {}): Promise<HealthReport> {
  const { folder, remove } = newFolder()
  const config = readConfig({ PLINTH_DATA_DIR: folder, ...env })
  try {
    return await examine({
      ...{ config, definition: builtIn, dataDir: config.storage.dataDir, runtime: process, isDeep: false },
      ...{
        now: Date.now,
        monotonic: () => performance.now(),
        later: muchLater,
        readSealer: async () => seal,
        openResults,
      },
      openDatabase: () => openReadOnly(config.storage.databaseUrl ?? join(config.storage.dataDir, 'plinth.db')),
      ...changes,
    })
  } finally {
    remove()
  }
}

/** Asserts the check's status (null if the check does not apply), and that its detail and cure match `text`. */
export function expectCheck({ checks }: HealthReport, id: string, status: string | null, text?: RegExp): void {
  const found = checks.find((check) => check.id === id)
  assert.equal(found?.status ?? null, status, `${id}: ${found?.detail}`)
  if (found === undefined) return
  assert.equal(found.cure !== undefined, status !== 'pass', `${id} has a cure unless it passed`)
  if (text) assert.match(`${found.detail} → ${found.cure}`, text)
}

import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import { guessableSecrets } from '../../config/production-checks.ts'
import { databaseUrlOf } from '../../config/storage.ts'
import { ConfigError } from '../../startup-errors.ts'
import { keysLoadedWithinMs } from '../../storage/data-keys/open.ts'
import { excludeNodes } from '../../storage/exclude-nodes.ts'
import { writeFileAtomically } from '../../storage/files/atomic-file.ts'
import { existingMasterKey, masterKeyBytes, masterKeyFile, masterKeyIn, openStores, type Stores } from '../../stores.ts'
import { print } from '../print.ts'
import { type RotationOutcome, type RotationStep, rotateMasterKey } from './rotation.ts'

export interface RotateMasterOptions {
  offline?: boolean
  startOver?: boolean
}

/** The file of the next master key in the data folder, during a rotation. */
const nextKeyFile = `${masterKeyFile}.next`
const keyBytes = 32

/**
 * Runs `plinth keys rotate-master`; prints each step. With `offline`, no node may use the database during the rotation.
 */
export async function rotateMaster(config: Config, { offline = false, startOver = false }: RotateMasterOptions) {
  if (guessableSecrets(config).includes('PLINTH_NEW_MASTER_KEY'))
    throw new ConfigError('PLINTH_NEW_MASTER_KEY is not random: generate one with openssl rand -hex 32')
  const release = offline ? await excludeNodes(databaseUrlOf(config.storage), Date.now) : () => {}
  try {
    const stores = await openStores(config)
    await rotateIn(config, stores, { offline, startOver }).finally(() => stores.db.close())
  } finally {
    await release()
  }
}

async function rotateIn(config: Config, stores: Stores, { offline, startOver }: Required<RotateMasterOptions>) {
  const { masterKey, newMasterKey } = config.storage
  const { dataDir } = stores
  const printer = stepPrinter()
  const outcome = await rotateMasterKey({
    ...{ stores, startOver, now: Date.now, random: (size) => randomBytes(size), onStep: printer.onStep },
    current: existingMasterKey(masterKey, dataDir) as Buffer,
    nextKey: (isNew) =>
      masterKey === null
        ? keyInFolder(dataDir, newMasterKey, { isNew, startOver })
        : newMasterKey === null
          ? undefined
          : masterKeyBytes(newMasterKey),
    replaceKey: masterKey === null ? () => replaceKeyFile(dataDir) : undefined,
    loadedWithinMs: offline ? 0 : keysLoadedWithinMs,
    wait: (ms) => pause(ms),
  })
  print(summaryOf(outcome, masterKey === null, printer.rows()))
}

/**
 * Returns the key in `master.key.next`; undefined if there is none. If the file is missing, creates it with the
 * configured key or, if `isNew`, a random one. With `startOver`, first deletes an existing file. Throws `ConfigError`
 * if the file contains a key other than the configured one.
 */
function keyInFolder(
  dataDir: string,
  configured: string | null,
  { isNew, startOver }: { isNew: boolean; startOver: boolean },
): Buffer | undefined {
  const path = join(dataDir, nextKeyFile)
  if (startOver) rmSync(path, { force: true })
  const given = configured === null ? undefined : masterKeyBytes(configured)
  if (!existsSync(path) && (isNew || given !== undefined)) {
    const text = (given ?? randomBytes(keyBytes)).toString('base64')
    writeFileAtomically(path, text, { mode: 0o600, replace: false })
  }
  const key = masterKeyIn(path)
  if (key !== undefined && given !== undefined && !given.equals(key))
    throw new ConfigError(`${path} contains a key other than PLINTH_NEW_MASTER_KEY: unset PLINTH_NEW_MASTER_KEY`)
  return key
}

/** Renames `master.key.next` to `master.key`, and syncs the folder, so that no crash can undo this. */
function replaceKeyFile(dataDir: string): void {
  renameSync(join(dataDir, nextKeyFile), join(dataDir, masterKeyFile))
  const folder = openSync(dataDir, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

const progressEveryMs = 1_000

/**
 * Returns `onStep`, which prints each step, and `rows`, which returns the number of secrets encrypted so far. `onStep`
 * prints that number at most once a second.
 */
function stepPrinter() {
  let printed = Number.NEGATIVE_INFINITY
  let count = 0
  const onStep = (step: RotationStep) => {
    if (step.step !== 'encrypted') return print(textOf(step))
    count += step.rows
    if (performance.now() - printed < progressEveryMs) return
    printed = performance.now()
    process.stderr.write(`plinth: encrypted again: ${count}, now ${step.column}\n`)
  }
  return { onStep, rows: () => count }
}

function textOf(step: Exclude<RotationStep, { step: 'encrypted' }>): string {
  switch (step.step) {
    case 'added':
      return `The new master key is valid (fingerprint ${step.fingerprint}); the old one still is`
    case 'waiting':
      return `Waiting ${Math.ceil(step.ms / 1_000)} seconds until every running process has loaded the keys`
    case 'activated':
      return `New secrets are encrypted with data key ${step.dataKey}`
    case 'replaced':
      return `${masterKeyFile} contains the new master key`
    case 'removed':
      return `The old master key is not valid any more (fingerprint ${step.fingerprint})`
  }
}

const nextSteps = `
Both master keys are valid. Next:
1. Set PLINTH_MASTER_KEY to the new key for every process, remove PLINTH_NEW_MASTER_KEY, and restart them one after
   another.
2. Run \`plinth keys rotate-master\` with these settings: it ends the validity of the old key.`

function summaryOf(outcome: RotationOutcome, isFile: boolean, rows: number): string {
  const encrypted = `Secrets encrypted again: ${rows}`
  if (outcome === 'both valid') return `${encrypted}\n${nextSteps}`
  if (outcome === 'finished') return `${encrypted}\nThe rotation is complete`
  const begin = isFile ? '' : '. To begin a rotation, set PLINTH_NEW_MASTER_KEY to the new key'
  return `Nothing to do: no rotation is in progress${begin}`
}

import type { Server } from 'node:tls'
import type { SealedColumn } from '../storage/data-keys/sealed-columns.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { iso, type RandomBytes } from '../storage/ids.ts'

export interface TicketOptions {
  db: Database
  sealer: Sealer
  random: RandomBytes
  /** Returns the current time in ms since the epoch. */
  now: () => number
  onError: (error: unknown) => void
}

/** A key that encrypts session tickets. */
interface TicketKey {
  /** 48 bytes in base64, in the layout of `server.setTicketKeys`. */
  key: string
  /** When a new key must replace this one, in ISO 8601. */
  replacedAt: string
}

const keyName = 'tls-session-tickets'
const keyAad = `settings:${keyName}`
const keyBytes = 48
/**
 * How long a key is used. Old keys must not be kept, because they can decrypt recorded TLS 1.2 connections. The lifetime of
 * sessions is in `src/http/server/server-options.ts`.
 */
const lifeMs = 12 * 3_600_000
const reloadEveryMs = 30_000

/** The column that contains the key. */
export const sealedTicketKey: SealedColumn = {
  ...{ table: 'settings', column: 'value', key: ['name'], only: [keyName] },
  locationOf: () => keyAad,
}

/**
 * Sets a server's ticket key to the key in the database, which all nodes share. A client can therefore resume a TLS
 * session on any node (RFC 5077, RFC 8446 §4.6.1). Every twelve hours, a new random key replaces the old one; a client
 * with an older ticket makes a full handshake. `reload` reads the key again, which also happens every 30 seconds until
 * `stop`.
 */
export async function shareTicketKey(server: Pick<Server, 'setTicketKeys'>, options: TicketOptions) {
  const { onError } = options
  let used: string | undefined
  const reload = async () => {
    const { key } = await currentKey(options)
    if (key !== used) server.setTicketKeys(Buffer.from(key, 'base64'))
    used = key
  }
  await reload()
  let last: Promise<void> | undefined
  const timer = setInterval(() => {
    last = reload().catch(onError)
  }, reloadEveryMs)
  return {
    reload,
    stop: async () => {
      clearInterval(timer)
      await last
    },
  }
}

/**
 * Returns the current key; replaces it if it has expired. If several nodes replace it at once, all use the same new
 * key.
 */
async function currentKey(options: TicketOptions): Promise<TicketKey> {
  const { db, sealer, random, now } = options
  const stored = await storedValue(db.read)
  const found = stored === undefined ? undefined : opened(options, stored)
  if (found && Date.parse(found.replacedAt) > now()) return found
  const key = { key: Buffer.from(random(keyBytes)).toString('base64'), replacedAt: iso(now() + lifeMs) }
  const value = sealer.seal(JSON.stringify(key), keyAad)
  const current = await db.write(async (tx) => {
    if (stored === undefined) {
      const row = tx.insertInto('settings').values({ name: keyName, value })
      await row.onConflict((conflict) => conflict.doNothing()).execute()
    } else {
      const replacement = tx.updateTable('settings').set({ value }).where('name', '=', keyName)
      await replacement.where('value', '=', stored).execute()
    }
    return storedValue(tx)
  })
  return opened(options, current ?? value)
}

const opened = ({ sealer }: TicketOptions, value: string): TicketKey => JSON.parse(sealer.open(value, keyAad))

async function storedValue(tx: Queryable): Promise<string | undefined> {
  const row = await tx.selectFrom('settings').select('value').where('name', '=', keyName).executeTakeFirst()
  return row?.value
}

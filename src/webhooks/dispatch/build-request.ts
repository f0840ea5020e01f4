import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { RandomBytes } from '../../storage/ids.ts'
import type { Due } from '../queue/claim.ts'
import { accountSecrets, headersPlace, memoize, secretPlace, validSecrets, type WebhookKeys } from '../secrets.ts'
import type { OutboundPost, Sender } from './http-client.ts'
import type { Outcome } from './outcome.ts'
import { secretKey, signature } from './sign.ts'

export interface SigningOptions {
  db: Database
  sealer: Sealer
  keys: WebhookKeys
  /** The release, sent in User-Agent. */
  version: string
  now: () => number
  random: RandomBytes
}

/**
 * Builds the HTTP request of a delivery: the stored bytes, signed with a fresh timestamp. Rejects if a secret cannot be
 * decrypted.
 */
export type SignedCall = (due: Due) => Promise<OutboundPost>

const opened = 1_000

/** Builds signed requests. Decrypted secrets are cached by their ciphertext; the cache has 1,000 entries. */
export function signedCalls({ db, sealer, keys, version, now, random }: SigningOptions): SignedCall {
  const unseal = memoize(opened, sealer.open)
  const agent = `Plinth/${version}`
  /** A webhook has its own secret; one-off callback URLs use the account's secret or the public key. */
  const opener = { ...sealer, open: unseal }
  const keyOf = memoize(opened, secretKey)
  const signingKeys = async ({ webhook, ownerClient, ownerSubject }: Due) => {
    if (webhook !== null)
      return { secrets: validSecrets(opener, webhook, secretPlace(webhook.id), now()).map((secret) => keyOf(secret)) }
    const owner = { ownerClient, ownerSubject }
    const secrets = await accountSecrets(db, opener, owner, now, random)
    return { secrets: secrets.map((secret) => keyOf(secret)), privateKeys: [keys.privateKey] }
  }
  const staticHeaders = ({ webhook }: Due): Record<string, string> => {
    if (!webhook?.headers) return {}
    const entries = Object.entries<string>(JSON.parse(unseal(webhook.headers, headersPlace(webhook.id))))
    return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
  }
  return async (due) => {
    const body = Buffer.from(due.body)
    const timestampSeconds = Math.floor(now() / 1_000)
    const headers = {
      ...staticHeaders(due),
      'content-type': 'application/json',
      'user-agent': agent,
      'webhook-id': due.eventId,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signature(await signingKeys(due), { id: due.eventId, timestampSeconds, body }),
      'webhook-event': due.type,
      'webhook-attempt': String(due.attempts + 1),
    }
    return { url: due.url, headers, body }
  }
}

interface Calling {
  sender: Pick<Sender, 'post'>
  signed: SignedCall
  /** Called with the outcome of each call. */
  onCalled?: (due: Due, outcome: Outcome) => void
}

/** Makes the call of a delivery within its time limit. Rejects like `SignedCall`. */
export async function callReceiver({ sender, signed, onCalled }: Calling, due: Due): Promise<Outcome> {
  const request = await signed(due)
  const outcome = await sender.post(due.limitMs === null ? request : { ...request, timeoutMs: due.limitMs })
  onCalled?.(due, outcome)
  return outcome
}

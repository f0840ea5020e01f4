import { childTrace, traceHeaders } from '../../http/headers/trace-context.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { RandomBytes } from '../../storage/ids.ts'
import type { Due } from '../queue/claim.ts'
import { accountSecrets, headersAad, memoize, secretAad, validSecrets, type WebhookKeys } from '../secrets.ts'
import type { OutboundPost, Sender } from './http-client.ts'
import type { CallOutcome } from './outcome.ts'
import { secretKey, signature } from './sign.ts'

export interface SigningOptions {
  db: Database
  sealer: Sealer
  keys: WebhookKeys
  /** The service's version, sent in User-Agent. */
  version: string
  now: () => number
  random: RandomBytes
}

/**
 * Builds a delivery's HTTP request: the stored bytes, signed with a fresh timestamp. Rejects if a secret cannot be
 * decrypted.
 */
export type SignedCall = (due: Due) => Promise<OutboundPost>

const cachedSecrets = 1_000

/** Returns a function that builds signed requests and caches up to 1,000 decrypted secrets by their ciphertext. */
export function signedCalls({ db, sealer, keys, version, now, random }: SigningOptions): SignedCall {
  const unseal = memoize(cachedSecrets, sealer.open)
  const agent = `Plinth/${version}`
  const opener = { ...sealer, open: unseal }
  const keyOf = memoize(cachedSecrets, secretKey)
  // Calls to webhooks are signed with the webhook's own secret; calls to one-off callback URLs with the account's
  // secret and the private key.
  const signingKeys = async ({ webhook, ownerClient, ownerSubject }: Due) => {
    if (webhook !== null)
      return { secrets: validSecrets(opener, webhook, secretAad(webhook.id), now()).map((secret) => keyOf(secret)) }
    const owner = { ownerClient, ownerSubject }
    const secrets = await accountSecrets(db, opener, owner, now, random)
    return { secrets: secrets.map((secret) => keyOf(secret)), privateKeys: [keys.privateKey] }
  }
  const staticHeaders = ({ webhook }: Due): Record<string, string> => {
    if (!webhook?.headers) return {}
    const entries = Object.entries<string>(JSON.parse(unseal(webhook.headers, headersAad(webhook.id))))
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

/** The span of an attempt: the trace context to send with the request, and a function that ends the span. */
export interface CallSpan {
  trace: string
  /** Called with the outcome of the attempt, or with null if the request could not be built. */
  end: (outcome: CallOutcome | null) => void
}

export type StartCallSpan = (due: Due) => CallSpan

interface Calling {
  sender: Pick<Sender, 'post'>
  signed: SignedCall
  random: RandomBytes
  /** Begins the span of each attempt, if traces are exported. */
  startSpan?: StartCallSpan | undefined
  /** Called with each call's outcome. */
  onCalled?: (due: Due, outcome: CallOutcome) => void
}

/**
 * Sends a delivery to its receiver, with its trace context and within its time limit. Rejects if a secret cannot be
 * decrypted.
 */
export async function callReceiver(calling: Calling, due: Due): Promise<CallOutcome> {
  const { sender, signed, random, startSpan, onCalled } = calling
  const span = startSpan?.(due)
  let outcome: CallOutcome | null = null
  try {
    const request = await signed(due)
    const trace = span?.trace ?? (due.trace === null ? null : childTrace(due.trace, random))
    if (trace !== null) Object.assign(request.headers, traceHeaders(trace))
    outcome = await sender.post(due.limitMs === null ? request : { ...request, timeoutMs: due.limitMs })
    onCalled?.(due, outcome)
    return outcome
  } finally {
    span?.end(outcome)
  }
}

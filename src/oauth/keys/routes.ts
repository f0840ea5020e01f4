import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { partialSchema } from '../../http/partial-schema.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions } from '../../http/policies/conditional.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import { iso } from '../../storage/ids.ts'
import { Narrowed } from '../admin-schemas.ts'
import type { AdminOptions } from '../clients/routes.ts'
import type { SigningAlgorithm } from './key-algorithms.ts'
import { lifeMs, prepareRotation, publishedAheadMs, verifiesAfterMs } from './rotation.ts'
import { signingKeys } from './signing-keys.ts'
import { type StoredKey, storedSigningKeys } from './stored-keys.ts'

export interface KeyRouteOptions extends AdminOptions {
  /** The algorithm of new keys; by default RS256. */
  signingAlgorithm?: SigningAlgorithm
  /** Loads the keys into this process after a rotation; other processes load them within 15 seconds. */
  reloadKeys?: () => Promise<void>
  report: (error: unknown, requestId: string) => void
}

const path = '/api/signing-keys'
const tags = ['administration']
const keyStates = ['published', 'signing', 'verifying'] as const

const Instant = (description: string) => Type.String({ format: 'date-time', description })
const kid = Type.String({ description: 'The `kid` in the JWKS and in tokens', examples: ['Vx3zqYV4bVn0yBv0m5y2'] })

const SigningKeyView = partialSchema(
  Type.Object({
    kid,
    algorithm: Type.String({ examples: ['RS256'] }),
    state: Type.Unsafe<(typeof keyStates)[number]>({
      type: 'string',
      enum: [...keyStates],
      description:
        '`published`: in the JWKS, does not sign yet. `signing`: signs new tokens. `verifying`: only verifies tokens that it signed',
      examples: ['signing'],
    }),
    createdAt: Instant('When the key was created'),
    signsFrom: Instant('When the key starts to sign'),
    signsUntil: Instant('When the successor starts to sign; if there is none yet, when it is expected to'),
    retiresAt: Instant('When the key is removed, because every token that it signed has expired'),
  }),
)

const Rotation = Type.Object({
  immediately: Type.Optional(
    Type.Boolean({
      description:
        'Sign with the new key at once, instead of publishing it for a day first. Consumers that cache the JWKS reject new tokens until they fetch it again',
      examples: [false],
    }),
  ),
  discard: Type.Optional(
    Type.Boolean({
      description:
        'Remove all other keys, for a leaked key: every token signed so far is rejected, and users must log in again. Implies `immediately`',
      examples: [false],
    }),
  ),
})
const Rotated = Type.Object({
  published: Type.Unsafe<{ kid: string; signsFrom: string } | null>({
    ...Type.Object({ kid, signsFrom: Instant('When the key starts to sign') }),
    type: ['object', 'null'],
    description: 'The new key; null if a key is already published and does not sign yet',
  }),
  retired: Type.Array(kid, { description: 'The removed keys', examples: [[]] }),
})

/** Returns the keys, latest first, with their state and schedule. */
function schedule(keys: readonly StoredKey[], nowMs: number) {
  const at = iso(nowMs)
  const signing = keys.find(({ activeFrom }) => activeFrom <= at)
  return keys.map((key) => {
    const { kid, alg, createdAt, activeFrom } = key
    const successor = keys.findLast((other) => other.activeFrom > activeFrom)
    const expected = Math.max(Date.parse(activeFrom) + lifeMs, nowMs + publishedAheadMs)
    const endsMs = successor ? Date.parse(successor.activeFrom) : expected
    const state = activeFrom > at ? keyStates[0] : key === signing ? keyStates[1] : keyStates[2]
    const ends = { signsUntil: iso(endsMs), retiresAt: iso(endsMs + verifiesAfterMs) }
    return { kid, algorithm: alg, state, createdAt, signsFrom: activeFrom, ...ends }
  })
}

/** Routes that list the signing keys, and rotate them as `plinth keys rotate` does. */
export const signingKeyRoutes: FastifyPluginAsyncTypebox<KeyRouteOptions> = async (app, options) => {
  const { db, sealer, now, random, signingAlgorithm: algorithm, reloadKeys, report } = options
  const ofList = { tags, operationId: 'listSigningKeys', summary: 'List the signing keys, latest first' }
  const list = { ...ofList, querystring: Narrowed, response: { 200: Type.Array(SigningKeyView) } }
  const reads = { scope: 'admin', cache: 'private', fields: true } as const
  app.get(path, { config: reads, schema: list }, async () => schedule(await storedSigningKeys(db.read), now()))

  const about = { tags, operationId: 'rotateSigningKeys', summary: 'Rotate the signing keys' }
  const schema = { ...about, body: Rotation, response: { 200: Rotated } }
  const writes = { scope: 'admin', cache: 'none', bodyOptional: true } as const
  app.post(`${path}/rotate`, { config: writes, schema }, async (request, reply) => {
    const { immediately = false, discard = false } = request.body
    checkPostPreconditions(request)
    await signingKeys({ db, sealer, now, random, algorithm })
    const sources = { db, sealer, now, random, algorithm, actor: auditActor(request) }
    const rotateIn = await prepareRotation(sources, { immediately: immediately || discard, discard })
    const body = await idempotentWrite(request, reply, db.write, async (tx) => {
      const { published, retired } = await rotateIn(tx)
      const added = published ? { kid: published.kid, signsFrom: published.activeFrom } : null
      return { status: 200, headers: {}, body: { published: added, retired } }
    })
    // The rotation has already been stored. If the keys cannot be loaded now, this process loads them within 15
    // seconds.
    await reloadKeys?.().catch((error: unknown) => report(error, request.id))
    return body
  })
}

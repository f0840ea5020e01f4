import { randomBytes } from 'node:crypto'
import { userRows } from '../catalog/user-rows.ts'
import { users } from '../catalog/users.ts'
import type { Definition } from '../definition/service.ts'
import type { Caller, TokenVerification } from '../http/policies/authenticate.ts'
import { createClient } from '../oauth/clients/clients.ts'
import { apiScopes, isGrantable } from '../oauth/tokens/scopes.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'

export interface CallerOptions<Role extends string = string> {
  /** The scopes of the token; by default, every scope of the service that a user without the role `admin` can grant. */
  scopes?: readonly string[]
  /** The labels of the client. */
  labels?: Readonly<Record<string, string>>
  /**
   * Adds a user, on whose behalf the client acts: `createdBy` is then `user:…`. By default, the user is named
   * `Test user` and has a generated email address. The members are the user's fields.
   */
  user?: true | Readonly<{ role?: Role; name?: string; email?: string; [field: string]: unknown }>
}

interface Registering {
  db: Database
  sealer: Sealer
  queue: Queue
  now: () => number
  definition: Definition
}

const keyOf = ({ clientId, subject }: Caller) => `${clientId} ${subject}`

/** The callers of a test: their tokens, and the claims that the test sets for them. */
export function testCallers() {
  const byToken = new Map<string, Caller>()
  const claims = new Map<string, object>()
  return {
    verify: (token: string): TokenVerification => {
      const caller = byToken.get(token)
      return caller ? { caller } : { refused: 'AUTH_TOKEN_INVALID' }
    },
    givenClaims: (caller: Caller): object | undefined => claims.get(keyOf(caller)),
    /** Registers a client, and a user if the options have one; returns the token. */
    add: async (registering: Registering, given: object | null, options: CallerOptions): Promise<string> => {
      const caller = await register(registering, options)
      if (given !== null) claims.set(keyOf(caller), given)
      const token = randomBytes(16).toString('base64url')
      byToken.set(token, caller)
      return token
    },
  }
}

async function register(registering: Registering, { scopes, labels = {}, user }: CallerOptions): Promise<Caller> {
  const { db, sealer, now, definition } = registering
  const granted = scopes ?? apiScopes(definition.scopes).filter((scope) => isGrantable('user', scope))
  const settings = { name: 'Test', scopes: [...granted], grants: ['client_credentials'], labels }
  const { client } = await createClient(db, sealer, definition.scopes, settings, { now })
  const subject = user === undefined ? client.id : await addUser(registering, client.id, user === true ? {} : user)
  return { clientId: client.id, subject, scopes: new Set(granted) }
}

/** Adds a user, and returns its subject. */
async function addUser(
  { db, queue, now, definition }: Registering,
  clientId: string,
  fields: Readonly<Record<string, unknown>>,
): Promise<string> {
  const { declaration } = definition.users?.collection ?? users
  const unknown = Object.keys(fields).filter((field) => !Object.hasOwn(declaration.kinds, field))
  if (unknown.length > 0) {
    throw new TypeError(`users have no field ${unknown.join(', ')}; use ${Object.keys(declaration.kinds).join(', ')}`)
  }
  const address = `${randomBytes(6).toString('hex')}@example.com`
  const rows = userRows({ db, queue, now, random: randomBytes }, declaration)
  const caller = { clientId, subject: clientId }
  const id = await db.write((tx) => rows.add({ tx, caller }, { name: 'Test user', email: address, ...fields }))
  return String(id)
}

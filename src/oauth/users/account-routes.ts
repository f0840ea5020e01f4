import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { auditRecorder } from '../../audit/chain.ts'
import { addLink } from '../../http/headers/vary.ts'
import { CursorText, Fields, linkHeader, PageLimit } from '../../http/pagination.ts'
import { partialSchema } from '../../http/partial-schema.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import { mergePatch } from '../../http/policies/body-parsing.ts'
import { checkPostPreconditions } from '../../http/policies/conditional.ts'
import { requesterOf } from '../../http/requester.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import { InstantOrNull } from '../admin-schemas.ts'
import type { AdminOptions } from '../clients/routes.ts'
import { changeAccount } from './account-changes.ts'
import { type AccountStatus, accountPage, accountStatuses, readAccount } from './account-views.ts'
import type { Role } from './accounts.ts'
import type { LoginTries } from './login-throttle.ts'

export interface AccountRouteOptions extends AdminOptions {
  /** Reads the password attempts for an account, by its case-folded e-mail address. */
  readTries: LoginTries['read']
}

type Plugin = FastifyPluginAsyncTypebox<AccountRouteOptions>

const path = '/api/users'
const accountPath = `${path}/:id/account`
const tags = ['administration']

const RoleText = Type.Unsafe<Role>({ type: 'string', enum: ['user', 'admin'], examples: ['user'] })
const account = {
  id: Type.Integer({ description: 'The id of the user', examples: [7] }),
  name: Type.String({ examples: ['Ada Lovelace'] }),
  email: Type.String({ format: 'email', examples: ['ada@example.com'] }),
  status: Type.Unsafe<AccountStatus>({
    type: 'string',
    enum: [...accountStatuses],
    description:
      '`none`: never invited. `invited`: has not chosen a password. `active`: can log in. `locked`: cannot log in',
    examples: ['active'],
  }),
  role: Type.Unsafe<Role | null>({
    type: ['string', 'null'],
    enum: ['user', 'admin', null],
    description: 'The role of the account; null if there is none',
    examples: ['user'],
  }),
  hasPassword: Type.Boolean({ examples: [true] }),
  passwordChangedAt: InstantOrNull('When the password was set'),
  lockedAt: InstantOrNull('When the account was locked; null if it is not locked'),
  lastLoginAt: InstantOrNull('When the user last entered the password'),
  invitationExpiresAt: InstantOrNull('When the open invitation expires; null if there is none'),
}
const ListedAccount = partialSchema(Type.Object(account))
const Account = partialSchema(
  Type.Object({
    ...account,
    loginAttempts: Type.Integer({
      description: 'Password attempts in the current hour, without those on devices from which the user has logged in',
      examples: [0],
    }),
    loginsBlockedUntil: InstantOrNull(
      'Until then, attempts on other devices are refused, because there were too many; null if they are not',
    ),
  }),
)
const AccountPatch = Type.Object({
  role: Type.Optional(RoleText),
  locked: Type.Optional(Type.Boolean({ description: 'Whether the account is locked', examples: [true] })),
})

const Query = Type.Object({
  ...{ limit: PageLimit, cursor: CursorText, fields: Fields },
  q: Type.Optional(
    Type.String({
      ...{ minLength: 1, maxLength: 100 },
      description: 'Only users whose name or e-mail address contains this text',
      examples: ['ada'],
    }),
  ),
  role: Type.Optional(Type.Unsafe<Role>({ ...RoleText, description: 'Only users with this role' })),
  status: Type.Optional(Type.Unsafe<AccountStatus>({ ...account.status, description: 'Only users with this status' })),
})

/** The path parameter of routes for one user. */
export const OfUser = Type.Object({
  id: Type.Integer({ minimum: 1, description: 'The id of the user', examples: [1] }),
})

/** Routes that list, read, lock and unlock user accounts, and change their roles. */
export const accountRoutes: Plugin = async (app, options) => {
  for (const routes of [listing, reading, changing]) await routes(app, options)
}

const listing: Plugin = async (app, { db, now }) => {
  const about = { tags, operationId: 'listAccounts', summary: 'List the users with their accounts, newest first' }
  const schema = { ...about, querystring: Query, response: { 200: Type.Array(ListedAccount) } }
  const config = { scope: 'admin', cache: 'private', fields: true } as const
  app.get(path, { config, schema }, async (request, reply) => {
    const { accounts, cursors } = await accountPage(db, request.query, requesterOf(request, reply), now())
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return accounts
  })
}

async function representation({ db, now, readTries }: AccountRouteOptions, userId: number) {
  const found = await readAccount(db, userId, now())
  const { count, blockedUntil } = await readTries(caseFold(found.email))
  return { ...found, loginAttempts: count, loginsBlockedUntil: blockedUntil }
}

const reading: Plugin = async (app, options) => {
  const about = { tags, operationId: 'readAccount', summary: 'Read the account of a user', params: OfUser }
  const querystring = Type.Object({ fields: Fields })
  const schema = { ...about, querystring, response: { 200: Account } }
  const config = { scope: 'admin', cache: 'none', fields: true, revised: false } as const
  app.get(accountPath, { config, schema }, async (request) => representation(options, request.params.id))
}

const changing: Plugin = async (app, options) => {
  const { db, sealer, now } = options
  const about = { tags, operationId: 'patchAccount', summary: 'Lock or unlock an account, or change its role' }
  const schema = { ...about, params: OfUser, body: AccountPatch, response: { 200: Account } }
  const writes = { scope: 'admin', cache: 'none', accepts: [mergePatch], minimal: true, revised: false } as const
  const config = { ...writes, problems: ['LAST_ADMINISTRATOR', 'PRECONDITION_FAILED'] } as const
  app.patch(accountPath, { config, schema }, async (request) => {
    const { id } = request.params
    checkPostPreconditions(request)
    const changer = { engine: db.engine, record: auditRecorder(sealer, now), actor: auditActor(request), nowMs: now() }
    await db.write((tx) => changeAccount(tx, changer, id, request.body))
    return representation(options, id)
  })
}

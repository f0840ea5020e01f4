import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sql } from 'kysely'
import { Type } from 'typebox'
import { isUserId, type OwnLimits } from '../http/policies/authenticate.ts'
import { Problem } from '../http/problems/problem.ts'
import { requesterOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import { userNames } from '../storage/names.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import { monthOf } from './calendar.ts'
import type { LimitRules } from './limiter.ts'
import { QuotaUsage } from './usage.ts'

const Rate = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  description: 'The rate of each account as calls/seconds, its own or the default; null if the limit is off',
  examples: ['6000/60'],
})
const quotas = Type.Array(QuotaUsage, { description: 'Limits per month; those missing are off' })

const ClientUsage = Type.Object({
  rate: Rate,
  accounts: Type.Array(
    Type.Object({
      subject: Type.String({ description: 'The user id, or the client id if it acts for itself', examples: ['42'] }),
      userName: Type.Optional(Type.String({ examples: ['Ada'] })),
      quotas,
    }),
    { description: 'The accounts with the highest use in this month, at most 100' },
  ),
})

const KeyUsage = Type.Object({ rate: Rate, quotas })

export interface AccountUsageOptions {
  db: Database
  /** Milliseconds since the epoch. */
  now: () => number
  /** The limits of the service. If omitted, there are none. */
  limiter?: { rules: LimitRules }
}

type Plugin = FastifyPluginAsyncTypebox<AccountUsageOptions>

interface StoredUse {
  key: string
  used: number
}

const maxAccounts = 100
const names = ['requests', 'reports'] as const
type QuotaName = (typeof names)[number]

/**
 * Serves GET /api/clients/{id}/usage and GET /api/keys/{id}/usage, which report the rate and the quota use of a client
 * or API key. Quota use is read from the database, where it is saved within a few seconds.
 */
export const accountUsage: Plugin = async (app, options) => {
  for (const routes of [ofClient, ofKey]) await routes(app, options)
}

const params = Type.Object({
  id: Type.String({ description: 'The id of the client or API key', examples: ['partner'] }),
})
const config = { scope: 'admin', cache: 'private' } as const

const ofClient: Plugin = async (app, { db, now, limiter }) => {
  const about = {
    tags: ['administration'],
    operationId: 'readClientUsage',
    summary: 'Read the rate of a client, and the quota use of its accounts',
  }
  const schema = { ...about, params, response: { 200: ClientUsage } }
  app.get('/api/clients/:id/usage', { config, schema }, async (request, reply) => {
    const { id } = request.params
    const own = await limitsOf(db, 'clients', id)
    const ranking = quotaLimits(own, limiter?.rules).requests === null && limiter ? 'reports' : 'requests'
    const start = `client:${encodeURIComponent(id)},`
    const busiest = await busiestOf(db, start, ranking, now(), requesterOf(request, reply))
    const uses = await usesOf(db, busiest, now())
    const bySubject = Map.groupBy(uses, ({ key }) => subjectOf(key))
    const subjects = busiest.map(subjectOf)
    const users = await userNames(db.read, subjects.filter(isUserId).map(Number))
    const accounts = subjects.map((subject) => {
      const userName = users.get(subject)
      const quotas = quotasOf(bySubject.get(subject) ?? [], own, limiter?.rules, now())
      return { subject, ...(userName !== undefined && { userName }), quotas }
    })
    return { rate: rateText(own, limiter?.rules), accounts }
  })
}

const ofKey: Plugin = async (app, { db, now, limiter }) => {
  const about = {
    tags: ['administration'],
    operationId: 'readApiKeyUsage',
    summary: 'Read the rate and the quota use of an API key',
  }
  const schema = { ...about, params, response: { 200: KeyUsage } }
  app.get('/api/keys/:id/usage', { config, schema }, async (request) => {
    const { id } = request.params
    const own = await limitsOf(db, 'apiKeys', id)
    const uses = await usesOf(db, [`key:${encodeURIComponent(id)}`], now())
    return { rate: rateText(own, limiter?.rules), quotas: quotasOf(uses, own, limiter?.rules, now()) }
  })
}

/** Returns the limits of an unrevoked client or API key. Throws RESOURCE_NOT_FOUND if there is none with this id. */
async function limitsOf({ read }: Database, table: 'clients' | 'apiKeys', id: string): Promise<OwnLimits> {
  const own = await read
    .selectFrom(table as 'clients')
    .select(['rate', 'quota'])
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .executeTakeFirst()
  if (own !== undefined) return own
  throw new Problem('RESOURCE_NOT_FOUND', `There is no such ${table === 'clients' ? 'client' : 'key'}`)
}

/**
 * Returns the accounts whose keys start with this text, sorted by their use of one quota in the current month, highest
 * first. Omits accounts with very long keys, because such keys are replaced by digests.
 */
async function busiestOf(
  { read, scan, engine }: Database,
  start: string,
  ranking: QuotaName,
  nowMs: number,
  requester: ScanRequester,
): Promise<string[]> {
  const end = ` ${ranking}`
  const query = read
    .selectFrom('quotaUses')
    .select('key')
    .where('period', '=', monthOf(nowMs).name)
    .where(sql`substr(key, 1, ${sql.lit(start.length)})`, '=', start)
    .where('key', 'like', `%${end}`)
    .where(engine.interruptible('quota_uses'))
    .orderBy('used', 'desc')
    .orderBy('key')
    .limit(maxAccounts)
  return (await scan<Pick<StoredUse, 'key'>>(query, requester)).map(({ key }) => key.slice(0, -end.length))
}

/** Reads the use of all quotas of these accounts in the current month. */
async function usesOf({ read }: Database, accounts: readonly string[], nowMs: number): Promise<StoredUse[]> {
  const keys = accounts.flatMap((account) => names.map((name) => `${account} ${name}`))
  if (keys.length === 0) return []
  const uses = read.selectFrom('quotaUses').select(['key', 'used']).where('key', 'in', keys)
  return uses.where('period', '=', monthOf(nowMs).name).execute()
}

/** Returns the subject from an account's key, such as `client:partner,42` or `client:partner,42 requests`. */
const subjectOf = (key: string): string => decodeURIComponent(key.slice(key.indexOf(',') + 1).split(' ', 1)[0] ?? '')

/** Returns the quotas of an account; null for quotas that are off. */
const quotaLimits = (own: OwnLimits, rules: LimitRules | undefined) => ({
  requests: own.quota ?? rules?.quotas.requests ?? null,
  reports: rules?.quotas.reports ?? null,
})

function quotasOf(uses: readonly StoredUse[], own: OwnLimits, rules: LimitRules | undefined, nowMs: number) {
  const limits = quotaLimits(own, rules)
  return names.flatMap((name) => {
    const limit = rules && limits[name]
    if (limit === null || limit === undefined) return []
    const used = Math.min(limit, Number(uses.find(({ key }) => key.endsWith(` ${name}`))?.used ?? 0))
    return [{ name, limit, used, remaining: limit - used, reset: monthOf(nowMs).resetsAt }]
  })
}

function rateText({ rate }: OwnLimits, rules: LimitRules | undefined): string | null {
  if (rules === undefined) return null
  if (rate !== null) return rate
  return rules.general && `${rules.general.calls}/${rules.general.seconds}`
}

import { sql } from 'kysely'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import { readVersionCalls, type VersionCalls } from './call-counts.ts'
import type { VersionStatus } from './version-of-path.ts'

const maxWebhooks = 1_000
const maxResults = 10_000

/** What would stop working if a version were retired. */
export interface RetirementPlan {
  version: string
  status: VersionStatus['status']
  /** The version that 410 responses would name as the successor; absent if no other version is active. */
  successor?: string
  /** Whether paths without a version prefix would be retired, too. */
  unprefixed: boolean
  /** The value of PLINTH_VERSIONS that retires the version; absent if no other version is active. */
  setting?: string
  /** The start of the call counts; absent if calls are not counted, because the version is not deprecated. */
  countedSince?: string
  /** The version's callers since `countedSince`, most recent first, at most 1,000. */
  clients: (Omit<VersionCalls, 'version'> & { name?: string })[]
  /** Webhooks that receive events with the version's field names, at most 1,000. */
  webhooks: RetiredWebhook[]
  /** The number of report results that can still be downloaded under the version's paths, at most 10,000. */
  results: number
}

interface RetiredWebhook {
  id: string
  event: string
  status: string
  ownerClient: string
  ownerSubject: string
  ownerName?: string
}

export interface PlanOptions {
  db: Database
  lifecycles: readonly VersionStatus[]
  now: () => number
}

/**
 * Returns what would stop working if a version were retired; undefined if there is no such version. Changes nothing.
 */
export async function retirementPlan(
  { db, lifecycles, now }: PlanOptions,
  version: string,
  requester: ScanRequester,
): Promise<RetirementPlan | undefined> {
  const life = lifecycles.find((one) => one.version === version)
  if (life === undefined) return undefined
  const successor = life.successor ?? lifecycles.findLast((one) => one !== life && one.status === 'active')?.version
  const [calls, webhooks] = [await readVersionCalls(db, [version]), await webhooksOf(db, version, requester)]
  const isCounted = life.status === 'deprecated'
  const clients = isCounted ? calls : []
  const nameOf = await namesOf(db, [
    ...clients.flatMap(({ clientId }) => (clientId === null ? [] : [clientId])),
    ...webhooks.map(({ ownerClient }) => ownerClient),
  ])
  return {
    ...{ version, status: life.status, unprefixed: life.bare.length > 0 },
    ...(successor !== undefined && { successor, setting: settingFor(lifecycles, life, successor) }),
    ...(isCounted && life.deprecatedAt !== null && { countedSince: life.deprecatedAt }),
    clients: clients.map(({ version: _, ...call }) => ({ ...call, ...named('name', nameOf(call.clientId ?? '')) })),
    webhooks: webhooks.map((webhook) => ({ ...webhook, ...named('ownerName', nameOf(webhook.ownerClient)) })),
    results: await countResults(db, life, iso(now()), requester),
  }
}

const named = <const Name extends string>(member: Name, name: string | undefined) =>
  (name === undefined ? {} : { [member]: name }) as { [Member in Name]?: string }

const webhooksOf = (
  { read, scan, engine }: Database,
  version: string,
  requester: ScanRequester,
): Promise<RetiredWebhook[]> =>
  scan(
    read
      .selectFrom('webhooks')
      .select(['id', 'event', 'status', 'ownerClient', 'ownerSubject'])
      .where('version', '=', version)
      .where(engine.interruptible('webhooks'))
      .limit(maxWebhooks),
    requester,
  )

async function namesOf({ read }: Database, ids: readonly string[]) {
  const unique = [...new Set(ids)]
  const rows =
    unique.length === 0
      ? []
      : await read.selectFrom('clients').select(['id', 'name']).where('id', 'in', unique).execute()
  const names = new Map(rows.map(({ id, name }) => [id, name]))
  return (id: string) => names.get(id)
}

async function countResults(
  { read, scan, engine }: Database,
  { version, bare }: VersionStatus,
  at: string,
  requester: ScanRequester,
): Promise<number> {
  const prefixes = [`/${version}`, ...(bare.length > 0 ? [''] : [])]
  const found = read
    .selectFrom('tasks')
    .select(sql`1`.as('one'))
    .where('status', '=', 'completed')
    .where('expiresAt', '>', at)
    .where('versionPrefix', 'in', prefixes)
    .where(engine.interruptible('tasks'))
    .limit(maxResults)
  const counted = read.selectFrom(found.as('found')).select((row) => row.fn.countAll<number>().as('results'))
  const [row] = await scan(counted, requester)
  return Number(row?.results ?? 0)
}

/** Returns the value of PLINTH_VERSIONS that also retires this version. */
function settingFor(lifecycles: readonly VersionStatus[], retired: VersionStatus, successor: string): string {
  const plans = lifecycles.flatMap((life) => {
    const { version, deprecatedAt, sunsetAt } = life
    const status = life === retired ? 'retired' : life.status
    if (status === 'active') return []
    // Versions that name the retired version as their successor need another one.
    const next = life === retired || life.successor === retired.version ? successor : life.successor
    const dates = { ...(deprecatedAt !== null && { deprecatedAt }), ...(sunsetAt !== null && { sunsetAt }) }
    return [[version, { status, ...dates, ...(next !== null && { successor: next }) }] as const]
  })
  return JSON.stringify(Object.fromEntries(plans))
}

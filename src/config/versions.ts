import { instantOf } from '../http/headers/instant.ts'
import { Expected, named, type Setting } from './setting.ts'

/** The lifecycle that the operator has planned for a version. */
export interface VersionPlan {
  status: 'active' | 'deprecated' | 'retired'
  /** When the version is deprecated, as fixed-width ISO text. */
  deprecatedAt?: string
  sunsetAt?: string
  /** The version that replaces this one; by default, the newest active version. */
  successor?: string
}

/** Plans by version name. */
export type VersionPlans = Readonly<Record<string, VersionPlan>>

const example = '{"v1":{"status":"deprecated","deprecatedAt":"2026-12-01","sunsetAt":"2027-12-01","successor":"v2"}}'
const statuses = ['active', 'deprecated', 'retired']
const members = ['status', 'deprecatedAt', 'sunsetAt', 'successor']
const isVersion = (value: unknown): boolean => typeof value === 'string' && /^v(0|[1-9]\d?)$/.test(value)
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Defines a JSON object with the lifecycle of each version. `versionLifecycles` checks that the versions exist. */
const versionPlans = (about: string): Setting<VersionPlans> => ({
  parse: (text) => {
    const value = parsed(text)
    if (!isObject(value)) throw new Expected(`a JSON object such as ${example}`)
    return Object.freeze(Object.fromEntries(Object.entries(value).map(([name, plan]) => [name, planOf(name, plan)])))
  },
  fallback: '{}',
  about,
})

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Expected(`JSON such as ${example}`)
  }
}

function planOf(name: string, plan: unknown): VersionPlan {
  if (!isVersion(name)) throw new Expected(`names of versions such as v1 (${name} is none)`)
  if (!isObject(plan)) throw new Expected(`an object with the status of ${name}`)
  const { status, successor } = plan
  const strange = Object.keys(plan).find((member) => !members.includes(member))
  if (strange !== undefined) throw new Expected(`only ${members.join(', ')} of ${name}, not ${strange}`)
  if (!statuses.includes(status as string)) throw new Expected(`a status of ${name}: ${statuses.join(', ')}`)
  if (successor !== undefined && !isVersion(successor))
    throw new Expected(`a version such as v2 as successor of ${name}`)
  const [deprecatedAt, sunsetAt] = [dateOf(name, plan, 'deprecatedAt'), dateOf(name, plan, 'sunsetAt')]
  const given = { deprecatedAt, sunsetAt, successor }
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  refuseHalf(name, { status: status as VersionPlan['status'], ...said })
  return Object.freeze({ status: status as VersionPlan['status'], ...said })
}

function dateOf(name: string, plan: Record<string, unknown>, member: string): string | undefined {
  const value = plan[member]
  if (value === undefined) return undefined
  const instant = typeof value === 'string' ? instantOf(value) : undefined
  if (instant === undefined) throw new Expected(`a date such as 2027-12-01 as ${member} of ${name}`)
  return instant
}

/**
 * Rejects incomplete or contradictory plans: a deprecated version needs the dates for its response headers; an active
 * version has no dates and no successor.
 */
function refuseHalf(name: string, { status, deprecatedAt, sunsetAt, successor }: VersionPlan): void {
  if (status === 'active' && (deprecatedAt ?? sunsetAt ?? successor) !== undefined) {
    throw new Expected(`no dates and no successor of ${name}, which is active`)
  }
  if (status === 'deprecated' && (deprecatedAt === undefined || sunsetAt === undefined)) {
    throw new Expected(`deprecatedAt and sunsetAt of ${name}, which is deprecated`)
  }
  // RFC 9745 §4: the sunset must not be earlier than the deprecation.
  if (deprecatedAt !== undefined && sunsetAt !== undefined && sunsetAt < deprecatedAt) {
    throw new Expected(`a sunsetAt of ${name} that is not before its deprecatedAt`)
  }
}

/** Lifecycle settings for API versions. */
export const versionSettings = {
  plans: named('PLINTH_VERSIONS', versionPlans('Lifecycle of each API version, as JSON; all are active by default')),
}

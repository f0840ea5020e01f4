import type { VersionPlans } from './config/versions.ts'
import type { Definition } from './definition/service.ts'
import { ConfigError } from './startup-errors.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'

/**
 * Returns the lifecycle of every version, sorted by number. A version without a plan is active; a retired version need
 * not be defined. Throws `ConfigError` for plans that do not match the definition.
 */
export function versionLifecycles({ versions }: Pick<Definition, 'versions'>, plans: VersionPlans): VersionStatus[] {
  const names = [...new Set([...Object.keys(versions), ...Object.keys(plans)])].toSorted(
    (one, other) => numberOf(one) - numberOf(other),
  )
  const statusOf = (name: string) => plans[name]?.status ?? 'active'
  const newest = names.findLast((name) => statusOf(name) === 'active')
  const lifecycles = names.map((version): VersionStatus => {
    const { deprecatedAt = null, sunsetAt = null, successor = newest } = plans[version] ?? {}
    const status = statusOf(version)
    if (versions[version] === undefined && status !== 'retired') {
      throw invalidVersions(
        `only versions that the service defines (${Object.keys(versions).join(', ')}) or retired ones, not ${version}`,
      )
    }
    return {
      ...{ version, status, deprecatedAt, sunsetAt },
      successor: status === 'active' ? null : (successor ?? null),
      deprecation: versions[version]?.deprecation ?? 'date',
      bare: version === 'v1' ? bareSegments(versions.v1) : [],
    }
  })
  for (const life of lifecycles) assertSuccessor(life, lifecycles)
  return lifecycles
}

const numberOf = (name: string) => Number(name.slice(1))

/** Returns the first segments of the v1 paths, which are also served without a version prefix. */
const bareSegments = (v1: Definition['versions'][string] | undefined): string[] =>
  v1 ? ['api', ...v1.collections.map(({ declaration }) => declaration.name)] : []

/** Throws unless a deprecated or retired version's chain of successors leads to an active version. */
function assertSuccessor(
  { version, status, successor }: VersionStatus,
  lifecycles: readonly VersionStatus[],
  steps = lifecycles.length,
): void {
  if (status === 'active') return
  const next = lifecycles.find((one) => one.version === successor)
  if (next === undefined || next.status === 'retired' || next.version === version || steps === 0) {
    throw invalidVersions(`a successor of ${version} that is not retired and leads to an active version`)
  }
  assertSuccessor(next, lifecycles, steps - 1)
}

const invalidVersions = (expected: string) => new ConfigError(`PLINTH_VERSIONS is not valid: expected ${expected}`)

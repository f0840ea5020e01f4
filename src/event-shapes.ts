import type { Definition } from './definition/service.ts'
import { eventKindsOf } from './resources/change-events.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'
import type { EventShapes } from './webhooks/event-shapes.ts'
import type { EventKinds } from './webhooks/event-types.ts'

/** Returns the names of the versions that are served, oldest first. */
export const servedVersions = (
  { versions }: Pick<Definition, 'versions'>,
  lifecycles: readonly VersionStatus[],
): string[] =>
  lifecycles.filter(({ version, status }) => status !== 'retired' && versions[version]).map(({ version }) => version)

/**
 * Returns a function that finds the conversion of a stored event body to a version's field names; stored bodies use the
 * collection's field names. For a version that is no longer served, it uses the next served version or, if there is
 * none, the newest.
 */
export function eventShapes(definition: Definition, lifecycles: readonly VersionStatus[]): EventShapes {
  const served = servedVersions(definition, lifecycles)
  const followerOf = (version: string) => served.find((other) => numberOf(other) >= numberOf(version))
  const shapes = new Map(served.map((version) => [version, shapesOf(definition, version)]))
  return (type, version) => {
    const effective = (version === null ? undefined : followerOf(version)) ?? served.at(-1)
    return effective === undefined ? undefined : shapes.get(effective)?.get(type)
  }
}

const numberOf = (version: string) => Number(version.slice(1))

/**
 * For each event type, returns the conversion to the version's field names. Includes only resources that the version
 * serves as views.
 */
function shapesOf({ versions }: Definition, version: string) {
  return new Map(
    (versions[version]?.collections ?? []).flatMap(({ declaration: { noun, view } }) =>
      view === undefined ? [] : [`${noun}.created`, `${noun}.updated`].map((type) => [type, view.toShown] as const),
    ),
  )
}

/** Returns the event types of a service, with the field names of one version. */
export function eventsIn({ events, versions }: Definition, version: string): EventKinds {
  const views = (versions[version]?.collections ?? []).filter(({ declaration: { view } }) => view !== undefined)
  const shown = Object.assign({}, ...views.map(({ declaration }) => eventKindsOf(declaration)))
  const known = Object.entries(events).map(([type, kind]) => [type, shown[type] ?? kind])
  return Object.fromEntries(known)
}

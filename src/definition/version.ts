import type { Collection } from '../resources/declaration.ts'
import { nameErrors } from '../resources/relations/relation-rules.ts'

/** The ways in which API versions may differ; everything else is shared by all versions. */
export interface Differences {
  /** A list is an array, or an object with `items`, `next` and `prev`. */
  lists: 'array' | 'object'
  /** The value of the Deprecation header once the version is deprecated: `true`, or the date (RFC 9745). */
  deprecation: 'true' | 'date'
  /** Whether query parameters that the operation does not define are ignored or rejected with 400. */
  unknownParameters: 'refuse' | 'ignore'
}

/** One version of the API: its path prefixes, its resources, and how it differs from other versions. */
export interface Version extends Differences {
  /** v1 also has the prefix '', because the paths in the API contract have no prefix and must not change. */
  prefixes: readonly string[]
  collections: readonly Collection[]
}

/** A declared version: its resources, and any differences from the defaults. */
export interface VersionDeclaration extends Partial<Differences> {
  resources: readonly Collection[]
}

export type DeclaredVersions = Readonly<Record<string, VersionDeclaration>>

/** Normalizes declared versions and sorts them numerically; a plain array is shorthand for `{ resources }`. */
export function declaredVersions(
  versions: Readonly<Record<string, readonly Collection[] | VersionDeclaration>>,
): DeclaredVersions {
  const entries = Object.entries(versions).map(([name, declared]): [string, VersionDeclaration] => [
    name,
    // JavaScript callers may pass any other value; `versionErrors` reports it.
    typeof declared === 'object' && declared !== null && 'resources' in declared ? declared : { resources: declared },
  ])
  return Object.fromEntries(entries.toSorted(([left], [right]) => Number(left.slice(1)) - Number(right.slice(1))))
}

/**
 * Returns the defaults: v1 follows the API contract; later versions return lists as objects, to which members can be
 * added.
 */
const defaultsFor = (name: string): Differences => ({
  ...(name === 'v1' ? requiredInV1 : { lists: 'object', deprecation: 'date' }),
  unknownParameters: 'refuse',
})

const requiredInV1 = { lists: 'array', deprecation: 'true' } as const

/** Adds the defaults and the path prefixes to a declared version. */
export const versionOf = (name: string, { resources, ...differences }: VersionDeclaration): Version =>
  Object.freeze({
    ...defaultsFor(name),
    ...differences,
    prefixes: name === 'v1' ? ['', '/v1'] : [`/${name}`],
    collections: Object.freeze([...resources]),
  })

/** Validates the declared versions of a service that has these resources; returns the errors. */
export function versionErrors(resources: readonly Collection[], versions: DeclaredVersions): string[] {
  const errors = Object.keys(versions)
    .filter((name) => !/^v[1-9][0-9]?$/.test(name))
    .map((name) => `service: versions are named v1, v2 and so on, not '${name}'`)
  // The unprefixed paths in the API contract belong to v1.
  if (!Object.hasOwn(versions, 'v1')) errors.push('service: versions must include v1')
  for (const [name, { resources: served, ...differences }] of Object.entries(versions)) {
    const isInvalid = !Array.isArray(served) || served.some((collection) => !isOf(resources, collection))
    if (isInvalid) errors.push(`service: ${name} may serve only collections that resources lists, and views of them`)
    else errors.push(...servedErrors(name, served))
    for (const [option, value] of Object.entries(differences)) errors.push(...differenceErrors(name, option, value))
  }
  return errors
}

/** Returns true for a resource of the service or a view of such a resource. */
const isOf = (resources: readonly Collection[], one: Collection | undefined): boolean =>
  resources.some((resource) => resource === one || resource.declaration === one?.declaration?.view?.collection)

/** Returns the errors in the combination of resources that one version serves. */
function servedErrors(name: string, served: readonly Collection[]): string[] {
  const declarations = served.map(({ declaration }) => declaration)
  const paths = declarations.map(({ path }) => path)
  const repeated = new Set(paths.filter((path, at) => paths.indexOf(path) !== at))
  // Checks only views, because the names of collections are checked once for the whole service.
  const views = declarations.filter(({ view }) => view !== undefined)
  return [
    ...[...repeated].map((path) => `service: ${name} serves ${path} twice: list the collection or one view of it`),
    ...views.flatMap((view) => nameErrors(view, declarations)).map((error) => `${error} (in ${name})`),
  ]
}

const allowedValues: Readonly<Record<string, readonly string[]>> = {
  lists: ['array', 'object'],
  deprecation: ['true', 'date'],
  unknownParameters: ['refuse', 'ignore'],
}

function differenceErrors(name: string, option: string, value: string): string[] {
  const allowed = allowedValues[option]
  if (!allowed)
    return [`service: ${name} has no option '${option}'; use resources, ${listed(Object.keys(allowedValues))}`]
  if (!allowed.includes(value)) return [`service: ${option} of ${name} must be '${allowed.join("' or '")}'`]
  const required: string | undefined = Object.hasOwn(requiredInV1, option)
    ? defaultsFor('v1')[option as keyof Differences]
    : undefined
  return name === 'v1' && required !== undefined && value !== required
    ? [`service: ${option} of v1 must be '${required}', as the API contract requires`]
    : []
}

const listed = (names: readonly string[]) => `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`

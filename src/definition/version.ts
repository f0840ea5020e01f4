import type { Collection } from '../resources/declaration.ts'

/** The differences between versions; otherwise they serve the same resources with the same code. */
export interface Differences {
  /** A list is an array, or an object with `items`, `next` and `prev`. */
  lists: 'array' | 'object'
  /** The value of the Deprecation header once the version is deprecated: `true`, or since when (RFC 9745). */
  deprecation: 'true' | 'date'
  /** A query parameter that the operation does not define is rejected with 400, or ignored. */
  unknownParameters: 'refuse' | 'ignore'
}

/** One version of the API: its prefixes, its resources, and how it differs from the others. */
export interface Version extends Differences {
  /** The contract's bare paths are the same routes as under `/v1` and never change. */
  prefixes: readonly string[]
  collections: readonly Collection[]
}

/** A version as declared: its resources, and its differences from the defaults. */
export interface VersionDeclaration extends Partial<Differences> {
  resources: readonly Collection[]
}

export type DeclaredVersions = Readonly<Record<string, VersionDeclaration>>

/** Versions in numerical order; a plain array is short for `{ resources }`. */
export function declaredVersions(
  versions: Readonly<Record<string, readonly Collection[] | VersionDeclaration>>,
): DeclaredVersions {
  const entries = Object.entries(versions).map(([name, said]): [string, VersionDeclaration] => [
    name,
    // Any other value, possible from JavaScript, is reported as an error by `versionMistakes`.
    typeof said === 'object' && said !== null && 'resources' in said ? said : { resources: said },
  ])
  return Object.fromEntries(entries.toSorted(([one], [other]) => Number(one.slice(1)) - Number(other.slice(1))))
}

/** Defaults: v1 is the contract's; in later versions a list is an object that can hold more than its items. */
const usual = (name: string): Differences => ({
  ...(name === 'v1' ? fixedInV1 : { lists: 'object', deprecation: 'date' }),
  unknownParameters: 'refuse',
})

const fixedInV1 = { lists: 'array', deprecation: 'true' } as const

/** A declared version with its defaults and prefixes. */
export const versionOf = (name: string, { resources, ...differences }: VersionDeclaration): Version =>
  Object.freeze({
    ...usual(name),
    ...differences,
    prefixes: name === 'v1' ? ['', '/v1'] : [`/${name}`],
    collections: Object.freeze([...resources]),
  })

/** Errors in the declared versions of a service with these resources. */
export function versionMistakes(resources: readonly Collection[], versions: DeclaredVersions): string[] {
  const wrong = Object.keys(versions)
    .filter((name) => !/^v[1-9][0-9]?$/.test(name))
    .map((name) => `service: versions are named v1, v2 and so on, not '${name}'`)
  // The bare paths of the contract are those of v1.
  if (!Object.hasOwn(versions, 'v1')) wrong.push('service: versions must have a v1')
  for (const [name, { resources: served, ...differences }] of Object.entries(versions)) {
    const strange = !Array.isArray(served) || served.some((one) => !resources.includes(one))
    if (strange) wrong.push(`service: ${name} may serve only what resources lists`)
    for (const [point, word] of Object.entries(differences)) wrong.push(...differenceMistakes(name, point, word))
  }
  return wrong
}

const words: Readonly<Record<string, readonly string[]>> = {
  lists: ['array', 'object'],
  deprecation: ['true', 'date'],
  unknownParameters: ['refuse', 'ignore'],
}

function differenceMistakes(name: string, point: string, word: string): string[] {
  const known = words[point]
  if (!known) return [`service: ${name} knows no '${point}', only resources, ${listed(Object.keys(words))}`]
  if (!known.includes(word)) return [`service: ${point} of ${name} must be '${known.join("' or '")}'`]
  const fixed: string | undefined = Object.hasOwn(fixedInV1, point)
    ? usual('v1')[point as keyof Differences]
    : undefined
  return name === 'v1' && fixed !== undefined && word !== fixed
    ? [`service: ${point} of v1 is '${fixed}', as the contract says`]
    : []
}

const listed = (names: readonly string[]) => `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`

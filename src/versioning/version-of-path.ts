/** The lifecycle of an API version, as configured by the operator. */
export interface VersionStatus {
  /** The version name, such as `v1`, which is also the path prefix. */
  version: string
  status: 'active' | 'deprecated' | 'retired'
  /** Fixed-width ISO timestamp; set for deprecated versions, and for retired versions that were deprecated first. */
  deprecatedAt: string | null
  /** The earliest time at which the version may be retired. */
  sunsetAt: string | null
  /** The version that replaces this version. */
  successor: string | null
  /** The format of the Deprecation header. */
  deprecation: 'true' | 'date'
  /** First path segments under which the version is also served without its prefix. */
  bare: readonly string[]
}

/** The version of a request target, and the path without the version prefix. */
interface VersionMatch {
  life: VersionStatus
  path: string
}

/** Returns the version of a request target, if that version has the status for which the matcher was created. */
type VersionMatcher = (target: string) => VersionMatch | undefined

/**
 * Splits the path of a request target into its first segment and the rest. Skips the origin (RFC 9112 §3.2.2) and, like
 * the router, stops at `?` or `#`.
 */
const parts = /^(?:https?:\/\/[^/?#]*)?\/([^/?#]*)([^?#]*)/i

/** Returns a matcher for the versions with a given status; undefined if there are none. */
export function versionMatcher(
  lifecycles: readonly VersionStatus[],
  status: VersionStatus['status'],
): VersionMatcher | undefined {
  const ofSegment = new Map<string, { life: VersionStatus; isBare: boolean }>()
  for (const life of lifecycles.filter((one) => one.status === status)) {
    ofSegment.set(life.version, { life, isBare: false })
    for (const segment of life.bare) ofSegment.set(segment, { life, isBare: true })
  }
  if (ofSegment.size === 0) return undefined
  return (target) => {
    const [, segment = '', rest = ''] = parts.exec(target) ?? []
    const found = ofSegment.get(decoded(segment))
    if (found === undefined) return undefined
    return { life: found.life, path: found.isBare ? `/${segment}${rest}` : rest }
  }
}

/** Decodes a segment as the router does: `/%761` is `/v1`. */
function decoded(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** Percent-encodes characters that a URI may not contain, such as a `>` that would end the link. */
const asReference = (path: string): string =>
  path.replace(/[^\w\-.~!$&'()*+,;=:@%/]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** Returns the same path in the version's successor; null if there is no successor. */
export const successorPath = ({ life: { successor }, path }: VersionMatch): string | null =>
  successor === null ? null : asReference(`/${successor}${path}`)

/** Returns the Link field value that refers to a version's successor (RFC 5829 §3.3). */
export const successorLink = (path: string): string => `<${path}>; rel="successor-version"`

/** The lifecycle of an API version, as configured by the operator. */
export interface VersionStatus {
  /** For example `v1`; also the prefix of its paths. */
  version: string
  status: 'active' | 'deprecated' | 'retired'
  /** Fixed-width ISO timestamp; set for deprecated versions and for retired ones that were deprecated before. */
  deprecatedAt: string | null
  /** The earliest time at which the version may be retired. */
  sunsetAt: string | null
  /** The version that replaces it. */
  successor: string | null
  /** The form of its Deprecation header. */
  deprecation: 'true' | 'date'
  /** First path segments under which it is also served without a prefix. */
  bare: readonly string[]
}

/** The version of a request target, and the path without the prefix. */
interface VersionMatch {
  life: VersionStatus
  path: string
}

/** Finds the version of the given status that a request target belongs to. */
type VersionMatcher = (target: string) => VersionMatch | undefined

/** Origin (RFC 9112 §3.2.2), first segment and rest of a path; the end of the path is found as the router finds it. */
const parts = /^(?:https?:\/\/[^/?#]*)?\/([^/?#]*)([^?#]*)/i

/** Builds a matcher for the versions with a status; undefined if no version has it. */
export function versionMatcher(
  lives: readonly VersionStatus[],
  status: VersionStatus['status'],
): VersionMatcher | undefined {
  const ofSegment = new Map<string, { life: VersionStatus; isBare: boolean }>()
  for (const life of lives.filter((one) => one.status === status)) {
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

/** The same path in the successor of the version; null if there is none. */
export const successorPath = ({ life: { successor }, path }: VersionMatch): string | null =>
  successor === null ? null : asReference(`/${successor}${path}`)

/** The Link to the successor of a version (RFC 5829 §3.3). */
export const successorLink = (path: string): string => `<${path}>; rel="successor-version"`

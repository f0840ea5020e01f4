/** What becomes of a version of the interface, as the operator has set it. */
export interface VersionStatus {
  /** `v1`, which is also the prefix of its paths. */
  version: string
  status: 'active' | 'deprecated' | 'retired'
  /** Fixed-width ISO text; set where the version is deprecated, and where it was. */
  deprecatedAt: string | null
  /** From when on it may be retired. */
  sunsetAt: string | null
  /** The version to go to. */
  successor: string | null
  /** What its Deprecation header says. */
  deprecation: 'true' | 'date'
  /** First segments of the paths that it has without a prefix. */
  bare: readonly string[]
}

/** The version of a request target, and its path there without a prefix. */
interface Placed {
  life: VersionStatus
  path: string
}

/** Tells whether a request target belongs to a version of the given status, and to which. */
type Place = (target: string) => Placed | undefined

/** Origin (RFC 9112 §3.2.2), first segment and rest of a path; the router ends a path in the same way. */
const parts = /^(?:https?:\/\/[^/?#]*)?\/([^/?#]*)([^?#]*)/i

/** Finds the version of a request target among those with the status; undefined where there is none of them. */
export function versionMatcher(lives: readonly VersionStatus[], status: VersionStatus['status']): Place | undefined {
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

/** As the router reads it: `/%761` is `/v1`. */
function decoded(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** The bytes of a path that a URI may not have, such as the `>` that would end a link, become percent-encoded. */
const asReference = (path: string): string =>
  path.replace(/[^\w\-.~!$&'()*+,;=:@%/]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** Where the same path is in the version's successor; null where it has none. */
export const successorPath = ({ life: { successor }, path }: Placed): string | null =>
  successor === null ? null : asReference(`/${successor}${path}`)

/** The Link to a version's successor (RFC 5829 §3.3). */
export const successorLink = (path: string): string => `<${path}>; rel="successor-version"`

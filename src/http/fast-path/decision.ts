import type { AccessLine } from '../server/access-log.ts'
import type { CachedResponses, RouteFacts } from './cached-response.ts'
import type { ResponseTemplate } from './response-template.ts'

/**
 * What the policies decided about a GET request. It applies to requests with the same head, for one path or for all
 * rows of a collection.
 */
export interface Decision {
  /** The path, without its last segment if the responses are found by segment. */
  path: string
  cached: CachedResponses
  shed: RouteFacts['shed']
  /**
   * Counts a request against the limits and returns the limits' header lines. Returns null if the policies must do
   * this.
   */
  admit: () => string | null
  template: ResponseTemplate
  /** The maximum length of the body. Longer responses are left to the policies, which may compress them. */
  maxBytes: number
  line: Pick<AccessLine, 'route' | 'address' | 'client' | 'subject'>
}

/** Decisions by path, and the decision that was used last. */
export interface Decisions {
  decisions: Map<string, Decision>
  last: Decision | null
}

/** Returns the decision for a request target; undefined if there is none. */
export function decisionFor(head: Decisions, target: string): Decision | undefined {
  const { last, decisions } = head
  if (last !== null && isFor(last, target)) return last
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  const found = decisions.get(path) ?? (query < 0 ? decisions.get(parentOf(target)) : undefined)
  if (found !== undefined) head.last = found
  return found
}

/** Returns a path up to and including its last slash. */
export const parentOf = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1)

/** Returns whether a decision applies to a target. The rest of the target is checked by `CachedResponses`. */
function isFor({ path, cached }: Decision, target: string): boolean {
  if (!target.startsWith(path)) return false
  return cached.by === 'segment' || target.length === path.length || target[path.length] === '?'
}

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Verification } from '../policies/authenticate.ts'
import type { AccessLine } from '../server/access-log.ts'
import type { CachedResponses, RouteFacts } from './cached-response.ts'
import type { ResponseTemplate } from './response-template.ts'

/** How the policies respond to GET requests for one path, or for all rows of a collection, with the same head. */
export interface Decision {
  /** The path without its last segment, if the responses are found by segment; otherwise, the whole path. */
  path: string
  cached: CachedResponses
  shed: RouteFacts['shed']
  /** Counts a request against the limits and returns their header lines; null if the policies must count it. */
  admit: () => string | null
  template: ResponseTemplate
  /** Longer responses may be compressed. */
  maxBytes: number
  line: Pick<AccessLine, 'route' | 'address' | 'client' | 'subject'>
}

/** The header fields of a request, and the decisions for requests with these fields from the same peer. */
export interface RememberedHead {
  /** Names and values in turn, as in `rawHeaders`. */
  fields: readonly string[]
  /** The positions of the values that differ between requests; -1 without the field. */
  noneMatchAt: number
  requestIdAt: number
  /** The result of verifying the bearer token, for which the decisions were made; null without a token. */
  verification: Verification | null
  /** Returns the current result of verifying the token; undefined if the policies must verify it. */
  verify: () => Verification | null | undefined
  decisions: Map<string, Decision>
  last: Decision | null
  /** The approximate size of the head and its decisions. */
  characters: number
}

/** The result of verifying the token of a head, and the function that verifies it again. */
export type RememberedCaller = Pick<RememberedHead, 'verify' | 'verification'>

const lastHead = Symbol('last head')

type HeadedSocket = Socket & { [lastHead]?: RememberedHead }

const maxCharacters = 16_000_000
const maxDecisions = 100
/** The approximate sizes of a head besides its text, and of a decision besides its path. */
const [headCharacters, decisionCharacters] = [1_000, 1_500]

/** Request heads, by their text and by the last request of each connection. */
export interface RememberedHeads {
  /** Returns the head of a request; undefined if it is new. */
  find: (request: IncomingMessage) => RememberedHead | undefined
  /** Adds a decision to a head, and drops those for an earlier result of verifying its token. */
  add: (request: IncomingMessage, decision: Decision, caller: RememberedCaller) => void
}

/**
 * Remembers heads and decisions of up to 16 million characters together; drops the heads that were not looked up for the
 * longest time.
 */
export function rememberedHeads(): RememberedHeads {
  const heads = new Map<string, RememberedHead>()
  let characters = 0
  const ofText = (text: string): RememberedHead | undefined => {
    const head = heads.get(text)
    if (head !== undefined) {
      heads.delete(text)
      heads.set(text, head)
    }
    return head
  }
  const create = (text: string, { rawHeaders }: IncomingMessage): RememberedHead => {
    const head = headOf(text, rawHeaders)
    heads.set(text, head)
    characters += head.characters
    return head
  }
  const makeRoom = () => {
    for (const [text, oldest] of heads) {
      if (characters <= maxCharacters) break
      heads.delete(text)
      characters -= oldest.characters
    }
  }
  return {
    find: (request) => {
      const socket = request.socket as HeadedSocket
      const last = socket[lastHead]
      if (last !== undefined && isHeadOf(last, request.rawHeaders)) return last
      if (heads.size === 0) return undefined
      const found = ofText(textOf(request))
      if (found !== undefined) socket[lastHead] = found
      return found
    },
    add: (request, decision, caller) => {
      const text = textOf(request)
      const head = ofText(text) ?? create(text, request)
      characters -= head.characters
      addDecision(head, decision, caller)
      characters += head.characters
      makeRoom()
      const socket = request.socket as HeadedSocket
      socket[lastHead] = head
    },
  }
}

const headOf = (text: string, rawHeaders: readonly string[]): RememberedHead => ({
  fields: rawHeaders,
  noneMatchAt: valueAt(rawHeaders, 'if-none-match'),
  requestIdAt: valueAt(rawHeaders, 'x-request-id'),
  ...{ verification: null, verify: () => undefined, decisions: new Map(), last: null },
  characters: 2 * text.length + headCharacters,
})

/** Adds a decision; first drops all others if they are too many or were made for another result of verifying the token. */
function addDecision(head: RememberedHead, decision: Decision, caller: RememberedCaller): void {
  const { decisions } = head
  const sizeOf = ({ path }: Decision) => path.length + decisionCharacters
  const remove = (known: Decision) => {
    decisions.delete(known.path)
    head.characters -= sizeOf(known)
  }
  if (head.verification !== caller.verification || decisions.size >= maxDecisions) decisions.forEach(remove)
  const before = decisions.get(decision.path)
  if (before) remove(before)
  decisions.set(decision.path, decision)
  head.characters += sizeOf(decision)
  Object.assign(head, caller, { last: decision })
}

function isHeadOf({ fields, noneMatchAt, requestIdAt }: RememberedHead, rawHeaders: readonly string[]): boolean {
  if (fields.length !== rawHeaders.length) return false
  for (let at = 0; at < fields.length; at++) {
    if (fields[at] !== rawHeaders[at] && at !== noneMatchAt && at !== requestIdAt) return false
  }
  return true
}

function valueAt(rawHeaders: readonly string[], name: string): number {
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]?.toLowerCase() === name) return at + 1
  return -1
}

const differing = new Set(['if-none-match', 'x-request-id'])

/** Returns the peer and the fields of a request as one text, without the values that differ between requests. */
function textOf({ socket, rawHeaders }: IncomingMessage): string {
  let text = `${socket.remoteAddress} ${(socket as TLSSocket).encrypted === true}`
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    const value = differing.has(name.toLowerCase()) ? '' : rawHeaders[at + 1]
    text += `\n${name}:${value}`
  }
  return text
}

/** Returns the decision for a request target; undefined if there is none. */
export function decisionFor(head: RememberedHead, target: string): Decision | undefined {
  const { last, decisions } = head
  if (last !== null && isFor(last, target)) return last
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  const found = decisions.get(path) ?? (query < 0 ? decisions.get(parentOf(target)) : undefined)
  if (found !== undefined) head.last = found
  return found
}

/** Returns a path without its last segment, with the slash at its end. */
export const parentOf = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1)

/** Returns whether a decision is for a target; a later segment or query is left to `CachedResponses`. */
function isFor({ path, cached }: Decision, target: string): boolean {
  if (!target.startsWith(path)) return false
  return cached.by === 'segment' || target.length === path.length || target[path.length] === '?'
}

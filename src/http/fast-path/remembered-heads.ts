import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { ApiKeyIdentity, TokenVerification } from '../policies/authenticate.ts'
import type { Decision, Decisions } from './decision.ts'

/** The results of verifying the token and looking up the API key in a request head. */
export interface RememberedCaller {
  /** The result of verifying the bearer token when the decisions were made; null without a token. */
  verification: TokenVerification | null
  /** Returns the current result of verifying the token; undefined if the policies must verify it. */
  verify: () => TokenVerification | null | undefined
  /** The result of looking up the API key when the decisions were made; null without an API key. */
  apiKey: ApiKeyIdentity | null
  /** Returns the current result of looking up the API key; undefined if the policies must look it up. */
  readApiKey: () => ApiKeyIdentity | null | undefined
}

/** The header fields of a request, and the decisions for requests with the same fields from the same peer. */
export interface RememberedHead extends RememberedCaller, Decisions {
  /** The names and values, alternating as in `rawHeaders`. */
  fields: readonly string[]
  /** The indexes in `fields` of the values that may differ between requests. */
  varying: readonly number[]
  /** The indexes of the values of If-None-Match, X-Request-Id and traceparent; -1 for an absent field. */
  noneMatchAt: number
  requestIdAt: number
  traceAt: number
  /** The approximate memory for the head and its decisions, in characters. */
  characters: number
}

/** Returns whether the token and the API key still yield the results for which the decisions were made. */
export const isSameCaller = (caller: RememberedCaller): boolean =>
  caller.verify() === caller.verification && caller.readApiKey() === caller.apiKey

const lastHead = Symbol('last head')

type HeadedSocket = Socket & { [lastHead]?: RememberedHead }

const maxCharacters = 16_000_000
const maxDecisions = 100
/** The approximate memory for a head without its text, and for a decision without its path, in characters. */
const [headCharacters, decisionCharacters] = [1_000, 1_500]

/**
 * Remembered request heads. A head is looked up by its text or, faster, by comparing it with the last head on the same
 * connection.
 */
export interface RememberedHeads {
  /** Returns the remembered head of a request; undefined if there is none. */
  find: (request: IncomingMessage) => RememberedHead | undefined
  /**
   * Adds a decision to a head. Drops the head's other decisions if they were made when the token or the API key yielded
   * a different result.
   */
  add: (request: IncomingMessage, decision: Decision, caller: RememberedCaller) => void
}

/**
 * Remembers heads and decisions up to a total of 16 million characters; then drops the heads least recently found by
 * text.
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

function headOf(text: string, rawHeaders: readonly string[]): RememberedHead {
  const positionOf = (wanted: string) =>
    rawHeaders.findIndex((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === wanted)
  return {
    fields: rawHeaders,
    varying: varyingFields.map(positionOf).filter((at) => at !== -1),
    noneMatchAt: positionOf('if-none-match'),
    requestIdAt: positionOf('x-request-id'),
    traceAt: positionOf('traceparent'),
    ...{ ...unknownCaller, decisions: new Map(), last: null },
    characters: 2 * text.length + headCharacters,
  }
}

const unknownCaller: RememberedCaller = {
  ...{ verification: null, verify: () => undefined },
  ...{ apiKey: null, readApiKey: () => undefined },
}

/**
 * Adds a decision. First drops all others if there are too many, or if they were made when the token or the API key
 * yielded a different result.
 */
function addDecision(head: RememberedHead, decision: Decision, caller: RememberedCaller): void {
  const { decisions } = head
  const sizeOf = ({ path }: Decision) => path.length + decisionCharacters
  const remove = (known: Decision) => {
    decisions.delete(known.path)
    head.characters -= sizeOf(known)
  }
  const isSame = head.verification === caller.verification && head.apiKey === caller.apiKey
  if (!isSame || decisions.size >= maxDecisions) decisions.forEach(remove)
  const before = decisions.get(decision.path)
  if (before) remove(before)
  decisions.set(decision.path, decision)
  head.characters += sizeOf(decision)
  Object.assign(head, caller, { last: decision })
}

function isHeadOf({ fields, varying }: RememberedHead, rawHeaders: readonly string[]): boolean {
  if (fields.length !== rawHeaders.length) return false
  for (let at = 0; at < fields.length; at++) {
    if (fields[at] !== rawHeaders[at] && !varying.includes(at)) return false
  }
  return true
}

/**
 * Fields that may differ between requests: their values are read anew for each request, or do not affect the response.
 */
const varyingFields = ['if-none-match', 'x-request-id', 'traceparent', 'tracestate']
const isVarying = new Set(varyingFields)

/** Returns the peer and the header fields as one text, without the values that may differ between requests. */
function textOf({ socket, rawHeaders }: IncomingMessage): string {
  let text = `${socket.remoteAddress} ${(socket as TLSSocket).encrypted === true}`
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    const value = isVarying.has(name.toLowerCase()) ? '' : rawHeaders[at + 1]
    text += `\n${name}:${value}`
  }
  return text
}

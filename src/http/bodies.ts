import type { FastifySchemaValidationError } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Problem } from './problem.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Media types of the body besides application/json. */
    accepts?: readonly string[]
  }
}

export const mergePatch = 'application/merge-patch+json'

/**
 * Which bodies are read and how input is judged: uncompressed JSON only (415 otherwise), nested 32 levels at most,
 * prototype keys refused, no type coercion; path and query integers are canonical decimals; text in bodies is trimmed
 * before its rules apply.
 */
export const bodies = fastifyPlugin(
  async (app) => {
    app.removeAllContentTypeParsers()
    const parser = app.getDefaultJsonParser('error', 'error')
    const parse: typeof parser = (request, body, done) => {
      const coding = request.headers['content-encoding'] ?? 'identity'
      if (coding !== 'identity') return done(unsupported('Send the body uncompressed'), undefined)
      if (isTooDeep(body)) return done(tooDeep(), undefined)
      return parser(request, body, done)
    }
    app.addContentTypeParser('application/json', { parseAs: 'string' }, parse)
    app.addContentTypeParser(mergePatch, { parseAs: 'string' }, (request, body, done) => {
      if (request.routeOptions.config.accepts?.includes(mergePatch)) return parse(request, body as string, done)
      done(unsupported('Send the body as application/json'), undefined)
    })
    app.setValidatorCompiler<TSchema>(({ schema, httpPart }) => inputValidator(schema, httpPart ?? 'body'))
  },
  { name: 'bodies', dependencies: ['errors', 'authorize'] },
)

const unsupported = (detail: string) => new Problem('UNSUPPORTED_MEDIA_TYPE', detail)

const depthAllowed = 32
const tooDeep = () => new Problem('INVALID_INPUT', `The body is nested deeper than ${depthAllowed} levels`)
const [quote, backslash] = [0x22, 0x5c]
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]

/** True when brackets outside of strings nest too deep; told from the text, before anything is built of it. */
function isTooDeep(text: string): boolean {
  let depth = 0
  let isString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === backslash) at++
    else if (code === quote) isString = !isString
    else if (isString) continue
    else if (code === openList || code === openObject) depth++
    else if (code === closeList || code === closeObject) depth--
    if (depth > depthAllowed) return true
  }
  return false
}

type Properties = Record<string, { type?: string }>

/** Checks one part of a request in place; failures name every field at once. */
export function inputValidator(schema: TSchema, part: string) {
  const check = Compile(schema)
  const properties = Object.entries((schema as { properties?: Properties }).properties ?? {})
  const integers = part === 'body' ? [] : ofType(properties, 'integer')
  const texts = part === 'body' ? ofType(properties, 'string') : []
  return (data: unknown): { value: unknown } | { error: FastifySchemaValidationError[] } => {
    if (typeof data === 'object' && data !== null) {
      readIntegers(data as Record<string, unknown>, integers)
      trimTexts(data as Record<string, unknown>, texts)
    }
    return check.Check(data) ? { value: data } : { error: check.Errors(data) as FastifySchemaValidationError[] }
  }
}

const ofType = (properties: [string, { type?: string }][], type: string): string[] =>
  properties.filter(([, property]) => property.type === type).map(([name]) => name)

const canonicalInteger = /^(0|-?[1-9][0-9]{0,14})$/

function readIntegers(data: Record<string, unknown>, names: string[]): void {
  for (const name of names) {
    const text = data[name]
    if (typeof text === 'string' && canonicalInteger.test(text)) data[name] = Number(text)
  }
}

function trimTexts(data: Record<string, unknown>, names: string[]): void {
  for (const name of names) {
    const text = data[name]
    if (typeof text === 'string') data[name] = text.trim()
  }
}

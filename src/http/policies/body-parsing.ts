import { isUtf8 } from 'node:buffer'
import type { FastifyRequest, FastifySchemaValidationError } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/schema'
import { decimalReader } from '../decimal.ts'
import type { DocumentedRules } from '../partial-schema.ts'
import { type FieldError, Problem } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'
import { readJson } from '../strict-json.ts'
import { uuidOf } from '../uuid.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Media types accepted for the request body in addition to application/json. */
    accepts?: readonly string[]
    /** The maximum number of members in all objects of the request body together; default 1,000. */
    maxMembers?: number
    /** The file parts of a multipart/form-data body, with their media types; undefined if the route takes no form. */
    parts?: Readonly<Record<string, readonly string[]>>
  }
}

export const mergePatch = 'application/merge-patch+json'
export const formData = 'multipart/form-data'
const json = 'application/json'

/**
 * Parses bodies, which must be uncompressed JSON in UTF-8 (otherwise 415), and validates input without coercing types.
 * Converts UUIDs in the path and query to lower case, trims the top-level strings of a body, and converts decimals to
 * their exact scale. An absent optional body becomes an empty object. If a route takes no body, any content is ignored
 * (RFC 9110 §9.3).
 */
export const bodyParsing = fastifyPlugin(
  async (app) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(json, { parseAs: 'buffer' }, (request, body, done) => {
      done(null, acceptsBody(request) ? read(request, body as Buffer) : undefined)
    })
    app.addContentTypeParser(mergePatch, { parseAs: 'buffer' }, (request, body, done) => {
      if (!acceptsBody(request)) return done(null, undefined)
      if (!request.routeOptions.config.accepts?.includes(mergePatch)) return done(unsupportedType(request), undefined)
      done(null, read(request, body as Buffer))
    })
    app.addContentTypeParser('*', (request, _body, done) =>
      acceptsBody(request) ? done(unsupportedType(request), undefined) : done(null, undefined),
    )
    app.addHook('onRoute', (route) => {
      if (route.config?.bodyOptional) route.preValidation = [...[route.preValidation ?? []].flat(), useEmptyBody]
    })
    app.setValidatorCompiler<TSchema>(({ schema, httpPart }) => inputValidator(schema, httpPart ?? 'body'))
  },
  { name: 'bodyParsing', dependencies: ['errorHandler', 'authorize'] },
)

function useEmptyBody(request: FastifyRequest, _reply: unknown, done: () => void): void {
  if (request.body === undefined) request.body = {}
  done()
}

const acceptsBody = ({ routeOptions }: FastifyRequest) => routeOptions.schema?.body !== undefined

const read = (request: FastifyRequest, body: Buffer) => readJsonBody(request, body, routeConfig(request).maxMembers)

/**
 * Parses a JSON body, or the JSON part of a form. Throws 415 for a content coding, or for a charset other than UTF-8;
 * throws INVALID_INPUT for invalid UTF-8 or for text that `readJson` rejects.
 */
export function readJsonBody({ headers }: Pick<FastifyRequest, 'headers'>, body: Buffer, maxMembers?: number) {
  checkCoding(headers)
  const type = headers['content-type'] as string
  if (type !== json && !isUtf8Type(type)) throw unsupported('Send the body in UTF-8: no other charset is supported')
  if (!isUtf8(body)) throw new Problem('INVALID_INPUT', 'The body is not well-formed UTF-8')
  return readJson(body.toString(), maxMembers)
}

/** Throws 415 for a body with a content coding. */
export function checkCoding(headers: FastifyRequest['headers']): void {
  const coding = headers['content-encoding']
  if (coding === undefined || coding.toLowerCase() === 'identity') return
  throw unsupported('Send the body uncompressed', { 'accept-encoding': 'identity' })
}

const unsupported = (detail: string, headers?: Record<string, string>) =>
  new Problem('UNSUPPORTED_MEDIA_TYPE', detail, { headers })

/** Returns a 415 that lists the accepted media types (RFC 9110 §15.5.16, RFC 5789 §2.2). */
function unsupportedType({ method, routeOptions: { config } }: FastifyRequest): Problem {
  const patches = [...(config.accepts ?? []), json].join(', ')
  const types = config.parts ? `${patches}, ${formData}` : patches
  return unsupported(`Send the body as ${types}`, {
    accept: types,
    ...(method === 'PATCH' && { 'accept-patch': patches }),
  })
}

const parameter = /\s*;\s*(?:([\w!#$%&'*+.^`|~-]+)=([\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*"))?/gy
const usualType = /^application\/json; ?charset=utf-8$/i

/**
 * Returns true if the parameters of a media type are well-formed and specify no charset other than UTF-8 (RFC 9110 §8.3.1).
 */
function isUtf8Type(type: string): boolean {
  if (usualType.test(type)) return true
  const parameters = type.slice(type.search(/;|$/)).trimEnd()
  let end = 0
  for (const [text, name = '', value = ''] of parameters.matchAll(parameter)) {
    if (name.toLowerCase() === 'charset' && !/^("utf-8"|utf-8)$/i.test(value)) return false
    end += text.length
  }
  return end === parameters.length
}

interface Property {
  type?: string | string[]
  $defs?: { rules?: DocumentedRules }
}
type Properties = Record<string, Property>

/**
 * Returns a function that validates one part of a request, converts its values in place, and reports all invalid fields at
 * once. The schema is compiled on first use.
 */
export function inputValidator(schema: TSchema, part: string) {
  let check: Validator | undefined
  const properties = Object.entries((schema as { properties?: Properties }).properties ?? {})
  const integers = part === 'body' ? [] : ofType(properties, 'integer')
  const numbers = part === 'body' ? [] : ofType(properties, 'number')
  const uuids = part === 'body' ? [] : uuidsAmong(properties)
  const texts = part === 'body' ? ofType(properties, 'string') : []
  const readDecimals = part === 'body' ? decimalReader(schema) : undefined
  return (data: unknown): { value: unknown } | { error: FastifySchemaValidationError[] } => {
    if (typeof data === 'object' && data !== null) {
      readTexts(data as Record<string, unknown>, integers, integerOf)
      readTexts(data as Record<string, unknown>, numbers, numberOf)
      readTexts(data as Record<string, unknown>, uuids, canonicalUuid)
      readTexts(data as Record<string, unknown>, texts, trimmed)
      readDecimals?.(data)
    }
    check ??= Compile(schema)
    return check.Check(data) ? { value: data } : { error: check.Errors(data)[1] as FastifySchemaValidationError[] }
  }
}

/**
 * Returns a validator compiler that also checks the body by rules that no schema can express. The rules are checked
 * only if all types are valid and no required member is missing; all violations are reported together.
 */
export const validatedBy =
  <B>(rules: (body: B) => FieldError[]) =>
  ({ schema, httpPart = 'body' }: { schema: unknown; httpPart?: string | undefined }) => {
    const check = inputValidator(schema as TSchema, httpPart)
    if (httpPart !== 'body') return check
    return (data: unknown): ReturnType<typeof check> => {
      const result = check(data)
      const failures = 'error' in result ? result.error : []
      if (failures.some(({ keyword }) => keyword === 'type' || keyword === 'required')) return result
      const violations = rules(data as B).map(asFailure)
      return violations.length > 0 ? { error: [...failures, ...violations] } : result
    }
  }

const asFailure = ({ field, message }: FieldError): FastifySchemaValidationError => {
  const instancePath = `/${field.replaceAll('~', '~0').replaceAll('/', '~1')}`
  return { instancePath, message, keyword: 'rule', params: {}, schemaPath: '' }
}

/** Returns the names of the properties that have this type, including nullable properties. */
const ofType = (properties: [string, Properties[string]][], type: string): string[] =>
  properties.filter(([, property]) => [property.type].flat().includes(type)).map(([name]) => name)

const uuidsAmong = (properties: [string, Property][]): string[] =>
  properties.filter(([, { $defs }]) => $defs?.rules?.format === 'uuid').map(([name]) => name)

const canonicalUuid = (text: string) => uuidOf(text) ?? text

const canonicalInteger = /^(0|-?[1-9]\d*)$/
const beyondSafe = 2 ** 53

/** Parses a canonical integer, clamped to ±2^53, which is outside the safe range. Returns other text unchanged. */
export const integerOf = (text: string) =>
  canonicalInteger.test(text) ? Math.max(-beyondSafe, Math.min(Number(text), beyondSafe)) : text

/** The number syntax of RFC 8259 §6, with a limit on the digits of each part. */
const jsonNumber = /^-?(0|[1-9]\d{0,307})(\.\d{1,340})?([eE][+-]?\d{1,3})?$/
export const numberOf = (text: string) => (jsonNumber.test(text) ? Number(text) : text)

const trimmed = (text: string) => text.trim()

function readTexts(data: Record<string, unknown>, names: string[], read: (text: string) => unknown): void {
  for (const name of names) {
    const text = data[name]
    if (typeof text === 'string') data[name] = read(text)
  }
}

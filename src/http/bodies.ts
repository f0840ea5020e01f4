import type { FastifySchemaValidationError } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Media types of the body besides application/json. */
    accepts?: readonly string[]
  }
}

export const mergePatch = 'application/merge-patch+json'

/**
 * Which bodies are read and how input is judged: JSON only (415 otherwise), prototype keys refused, no type coercion;
 * path and query integers are canonical decimals; text in bodies is trimmed before its rules apply.
 */
export const bodies = fastifyPlugin(
  async (app) => {
    app.removeAllContentTypeParsers()
    const parseJson = app.getDefaultJsonParser('error', 'error')
    app.addContentTypeParser('application/json', { parseAs: 'string' }, parseJson)
    app.addContentTypeParser(mergePatch, { parseAs: 'string' }, (request, body, done) => {
      if (request.routeOptions.config.accepts?.includes(mergePatch)) return parseJson(request, body as string, done)
      done(Object.assign(new Error(), { code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE' }), undefined)
    })
    app.setValidatorCompiler<TSchema>(({ schema, httpPart }) => inputValidator(schema, httpPart ?? 'body'))
  },
  { name: 'bodies', dependencies: ['errors', 'authorize'] },
)

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

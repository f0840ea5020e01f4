import type { FastifyContextConfig } from 'fastify'
import { mergePatch } from './bodies.ts'
import { problemsOf, requestHeadersOf, successesOf } from './openapi-answers.ts'
import type { Content, HeaderName, Parameter, Reference, Response } from './openapi-components.ts'
import { describeCodes, responseName } from './openapi-errors.ts'
import { mergePatchOf, namesOf, type Schema, type SchemaNames } from './openapi-schemas.ts'
import { type ProblemCode, problems } from './problem.ts'

/** A declared answer: a schema, or media types with theirs. */
export type Declared = Schema & { content?: Content }

/** What is known of a live route, its schemas as plain JSON. */
export interface Route {
  method: string
  /** As the document writes it, with `{id}`. */
  path: string
  config: FastifyContextConfig
  schema: {
    operationId?: string
    summary?: string
    description?: string
    tags?: string[]
    params?: Schema
    querystring?: Schema
    body?: Schema
    response?: Record<string, Declared>
  }
}

/** What an operation answers besides what the facts of its route imply. */
export interface Extra {
  problems?: readonly ProblemCode[]
  /** On every success. */
  headers?: readonly HeaderName[]
}

export interface Operation {
  operationId: string
  summary?: string
  description?: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: (Parameter | Reference)[]
  requestBody?: { required: boolean; content: Content }
  responses: Record<string, Response | Reference>
}

export interface Surroundings {
  names: SchemaNames
  extra: Extra
  /** The body of PUT at the same path, from which that of PATCH follows. */
  replacement: Schema | undefined
}

/** The operation of a route. */
export function operationOf(route: Route, operationId: string, { names, extra, replacement }: Surroundings): Operation {
  const { summary, description, tags, params, querystring, body } = route.schema
  const called = namesOf(route.schema.operationId ?? '')
  const headers = requestHeadersOf(route).map((name) => ({ $ref: `#/components/parameters/${name}` }))
  const parameters = [...parametersOf(params, 'path'), ...parametersOf(querystring, 'query'), ...headers]
  const answers = successesOf(route, extra.headers ?? [], (schema) => names.refer(schema, called.answer))
  return {
    operationId,
    ...(summary && { summary }),
    ...(description && { description }),
    ...(tags && { tags }),
    security: securityOf(route.config.scope),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: requestBodyOf(route, replacement, (schema) => names.refer(schema, called.body)) }),
    responses: { ...answers, ...failures([...problemsOf(route), ...(extra.problems ?? [])]) },
  }
}

/** Public paths take a token too, and refuse a wrong one; `{}` says that none is needed. */
function securityOf(scope: string | undefined): Operation['security'] {
  if (scope === 'public') return [{}, { oauth2: [] }]
  return [{ oauth2: scope === undefined || scope === 'any' ? [] : [scope] }]
}

function parametersOf(schema: Schema | undefined, place: string): Parameter[] {
  return Object.entries(schema?.properties ?? {}).map(([name, { description = '', ...rest }]) => ({
    name,
    in: place,
    ...(description && { description }),
    ...((place === 'path' || schema?.required?.includes(name)) && { required: true }),
    schema: rest,
  })) as Parameter[]
}

function requestBodyOf({ schema, config }: Route, replacement: Schema | undefined, refer: (schema: Schema) => Schema) {
  const accepts = config.accepts ?? []
  const isPatch = accepts.includes(mergePatch) && replacement !== undefined
  const body = refer(isPatch ? mergePatchOf(replacement) : (schema.body as Schema))
  // What says most comes first: generated clients send the first media type.
  return {
    required: true,
    content: Object.fromEntries([...accepts, 'application/json'].map((t) => [t, { schema: body }])),
  }
}

/** The error answers, by status: shared ones, each saying which codes it can carry here. */
function failures(codes: readonly ProblemCode[]): Record<string, Reference> {
  const byStatus = Object.groupBy([...new Set(codes)], (code) => problems[code][0])
  const answers = Object.entries(byStatus).map(([status, ofStatus = []]) => [
    status,
    { $ref: `#/components/responses/${responseName(Number(status))}`, description: describeCodes(ofStatus) },
  ])
  return { ...Object.fromEntries(answers), default: { $ref: '#/components/responses/Error' } }
}

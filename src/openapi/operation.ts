import type { FastifyContextConfig } from 'fastify'
import { jsonPart } from '../http/multipart.ts'
import { formData, mergePatch } from '../http/policies/body-parsing.ts'
import { type ProblemCode, problems as registry } from '../http/problems/problem.ts'
import { type Content, type Parameter, parameterReferences, type SchemaReference } from './components.ts'
import { describeCodes, responseName } from './error-responses.ts'
import { sampleOf } from './examples.ts'
import type { Operation, Route } from './operation-types.ts'
import { describedBy, problemsOf, requestHeadersOf, successesOf } from './responses.ts'
import { mergePatchOf, operationSchemaNames, type Schema, type SchemaNames } from './schemas.ts'

/** Media types of browser pages and their scripts. */
const ofBrowsers: ReadonlySet<string> = new Set(['text/html', 'text/javascript'])

/** Returns true if a route serves a page or a script, which generated clients do not need. */
export const isPage = ({ schema }: Pick<Route, 'schema'>): boolean =>
  Object.keys(schema.response?.['200']?.content ?? {}).some((type) => ofBrowsers.has(type))

export interface OperationContext {
  names: SchemaNames
  /** Error codes that any request can cause. */
  problems: readonly ProblemCode[]
  /**
   * The body schema of PUT on the same path. The PATCH body is derived from it unless the PATCH schema contains a
   * `whole` schema.
   */
  replacement: Schema | undefined
}

/** Builds a route's operation. */
export function operationOf(
  route: Route,
  operationId: string,
  { names, problems, replacement }: OperationContext,
): Operation {
  const { summary, description, tags, params, querystring, body } = route.schema
  const schemaNames = operationSchemaNames(route.schema.operationId ?? '')
  const headers = parameterReferences(requestHeadersOf(route))
  const parameters = [...parametersOf(params, 'path'), ...parametersOf(querystring, 'query'), ...headers]
  const answers = successesOf(route, (schema, suffix = '') =>
    names.refer(
      schema,
      schemaNames.answer.map((name) => name + suffix),
    ),
  )
  return {
    operationId,
    ...(summary && { summary }),
    description: description ?? describedBy(route),
    ...(tags && { tags }),
    security: securityOf(route.config),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: requestBodyOf(route, replacement, (schema) => names.refer(schema, schemaNames.body)) }),
    ...(route.config.bodyTypes && { requestBody: fileBodyOf(route.config.bodyTypes) }),
    responses: { ...answers, ...failures([...problemsOf(route), ...problems]) },
  }
}

/**
 * Returns the security requirements; `{}` means that no token is required. Public paths also accept a token, but reject
 * an invalid one.
 */
function securityOf({ scope, orScope }: FastifyContextConfig): Operation['security'] {
  if (scope === 'own') return []
  const scopes = scope === undefined || scope === 'any' || scope === 'public' ? [] : [scope]
  const either = orScope === undefined ? [] : [{ oauth2: [orScope] }]
  const open = scope === 'public' ? [{}] : []
  // `bearer` precedes `oauth2`: tools prefer the first scheme, and `bearer` works with any token, regardless of its
  // source.
  return [...open, { bearer: [] }, { oauth2: scopes }, ...either]
}

function parametersOf(schema: Schema | undefined, location: string): Parameter[] {
  const documented = Object.entries(schema?.properties ?? {}).filter(([, property]) => Boolean(property))
  return documented.map(([name, { description = '', examples, ...rest }]) => ({
    name,
    in: location,
    ...(description && { description }),
    ...(rest.type === 'array' && { style: 'form', explode: false }),
    ...((location === 'path' || schema?.required?.includes(name)) && { required: true }),
    schema: rest,
    example: sampleOf({ ...rest, examples }),
  })) as Parameter[]
}

function requestBodyOf({ schema, config }: Route, replacement: Schema | undefined, refer: (schema: Schema) => Schema) {
  const accepts = config.accepts ?? []
  const isPatch = accepts.includes(mergePatch) && replacement !== undefined
  const { whole = replacement } = schema.body as { whole?: Schema }
  const body = refer(isPatch && whole ? mergePatchOf(whole) : (schema.body as Schema))
  // The most specific media type comes first, because generated clients send the first media type listed.
  const types = [...accepts, 'application/json']
  const content: Content = Object.fromEntries(types.map((type) => [type, { schema: body }]))
  const isRequired = ((schema.body as Schema).required ?? []).length > 0
  if (config.parts) content[formData] = formOf(config.parts, { body, isRequired }, types)
  return { required: !config.bodyOptional, content }
}

/** Returns a multipart form: a JSON part with the body, in one of the media types `types`, and the file parts. */
function formOf(
  files: Readonly<Record<string, readonly string[]>>,
  { body, isRequired }: { body: Schema; isRequired: boolean },
  types: readonly string[],
) {
  const names = Object.keys(files)
  const schema: Schema = {
    type: 'object',
    ...(isRequired && { required: [jsonPart] }),
    properties: {
      [jsonPart]: body,
      ...Object.fromEntries(names.map((name) => [name, { type: 'string', format: 'binary' }])),
    },
  }
  const parts = Object.entries({ [jsonPart]: types, ...files })
  return { schema, encoding: Object.fromEntries(parts.map(([name, of]) => [name, { contentType: of.join(', ') }])) }
}

/** Returns a request body that is a file. */
const fileBodyOf = (types: readonly string[]) => ({
  required: true,
  content: Object.fromEntries(types.map((type) => [type, { schema: { type: 'string', format: 'binary' } }])),
})

/**
 * Returns the error responses by status: references to shared responses, each with the error codes that can occur here.
 */
export function failures(codes: readonly ProblemCode[]): Record<string, SchemaReference> {
  const byStatus = Object.groupBy([...new Set(codes)], (code) => registry[code][0])
  const answers = Object.entries(byStatus).map(([status, ofStatus = []]) => [
    status,
    { $ref: `#/components/responses/${responseName(Number(status))}`, description: describeCodes(ofStatus) },
  ])
  return { ...Object.fromEntries(answers), default: { $ref: '#/components/responses/Error' } }
}

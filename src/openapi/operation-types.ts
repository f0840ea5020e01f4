import type { FastifyContextConfig } from 'fastify'
import type { ProblemCode } from '../http/problems/problem.ts'
import type {
  Content,
  HeaderName,
  HeaderParameterName,
  OperationLink,
  Parameter,
  Response,
  SchemaReference,
} from './components.ts'
import type { Schema } from './schemas.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Error codes of the operation, in addition to those implied by its schema and scope. */
    problems?: readonly ProblemCode[]
    /** Headers of the success responses, in addition to those implied by the schema and caching. */
    headers?: readonly HeaderName[]
    /** Request headers that the operation honors, in addition to those that are implied. */
    requestHeaders?: readonly HeaderParameterName[]
    /** The operations that clients can call after a 200 response, by name. */
    links?: Readonly<Record<string, OperationLink>>
    /** The media types of a request body that is a file. */
    bodyTypes?: readonly string[]
    /** Whether the request body is optional. */
    bodyOptional?: boolean
    /**
     * False if the resource has no revision; Last-Modified and the headers of conditional writes are then not implied.
     */
    revised?: false
  }
}

/** A declared response: a schema, or media types with schemas. */
export type Declared = Schema & { content?: Content }

/** A live route with its schemas as plain JSON. */
export interface Route {
  method: string
  /** The path in OpenAPI syntax, with `{id}`. */
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

/** An OpenAPI operation. */
export interface Operation {
  operationId: string
  deprecated?: boolean
  summary?: string
  description?: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: (Parameter | SchemaReference)[]
  requestBody?: { required: boolean; content: Content }
  responses: Record<string, Response | SchemaReference>
}

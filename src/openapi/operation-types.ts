import type { FastifyContextConfig } from 'fastify'
import type { ProblemCode } from '../http/problems/problem.ts'
import type { Content, HeaderName, HeaderParameterName, Parameter, Reference, Response } from './components.ts'
import type { Schema } from './schemas.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Codes of errors that the operation can answer with, besides those that follow from its schema and its scope. */
    problems?: readonly ProblemCode[]
    /** Headers of its successes, besides those that follow from its schema and its cache. */
    headers?: readonly HeaderName[]
    /** Request headers it heeds, besides those that follow. */
    requestHeaders?: readonly HeaderParameterName[]
    /** Its body may be left out. */
    bodyOptional?: boolean
  }
}

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

/** An operation of the document. */
export interface Operation {
  operationId: string
  deprecated?: boolean
  summary?: string
  description?: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: (Parameter | Reference)[]
  requestBody?: { required: boolean; content: Content }
  responses: Record<string, Response | Reference>
}

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import diagnostics from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { builtIn } from '../../src/catalog/service.ts'
import { signingKeys } from '../../src/oauth/keys/signing-keys.ts'
import { authorizationServer } from '../../src/oauth/provider/provider.ts'
import { createUserParts } from '../../src/oauth/users/users.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { looks, type TestApp, testApp } from './app.ts'

/** Any JSON value. It is untyped, because tests access members of documents at any depth. */
export type Json = ReturnType<typeof JSON.parse>

export const baseUrl = 'https://localhost:8443'
export const seal = sealer(Buffer.alloc(32, 1), randomBytes)
export const methods = ['get', 'put', 'post', 'delete', 'patch']
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

/** A row of `request_log`. */
export const loggedRequest = {
  ...{ id: '0123456780', requestId: 'request-1', node: 'nod_a', method: 'GET', path: '/users/9', status: 404, ms: 2 },
  ...{ clientId: 'cli_a', subject: '1', address: '192.0.2.1', errorCode: 'RESOURCE_NOT_FOUND' },
}

/** A route as registered in the app, regardless of whether the document contains it. */
export interface LiveRoute {
  method: string
  /** The path with parameters like `{id}`, as in the document. */
  path: string
  scope: string | undefined
  orScope: string | undefined
  /** True for pages, scripts and browser login steps, which generated clients do not need. */
  isForBrowsers: boolean
}

/** The paths of browser login, consent and logout, including their pages. */
const browserPaths = /^\/oauth\/(authorize|logout|interaction|invitation)(\/|$)/

function isForBrowsers({ url, schema }: RouteOptions): boolean {
  const answers = (schema?.response ?? {}) as Record<string, { content?: object }>
  const types = Object.keys(answers['200']?.content ?? {})
  return browserPaths.test(url) || types.some((type) => type === 'text/html' || type === 'text/javascript')
}

export interface Documented {
  service: TestApp
  document: Json
  /** Every route except HEAD and OPTIONS. */
  live: LiveRoute[]
  operations: () => { path: string; method: string; operation: Json }[]
  at: (pointer: string) => Json
  /** Resolves a reference; returns any other value unchanged. */
  resolve: (value: Json) => Json
  /** Returns a schema with its direct references inlined; the inlined schemas keep theirs. */
  inlined: (schema: Json) => Json
  compile: (schema: Json) => (value: unknown) => boolean
  /** Asserts that a value matches the schema; the error message contains `where`. */
  check: (schema: Json, value: unknown, where: string) => void
}

/**
 * Builds the app with an origin, a release and an authorization server; returns its document and functions to read it.
 */
export async function documentedApp(db: Database, settings: object = {}): Promise<Documented> {
  const live: LiveRoute[] = []
  const stop = onEveryRoute((route) => {
    const { method, url, config } = route
    const names = [method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
    const path = url.replace(/:(\w+)/g, '{$1}')
    const about = { path, scope: config?.scope, orScope: config?.orScope, isForBrowsers: isForBrowsers(route) }
    live.push(...names.map((name) => ({ method: name, ...about })))
  })
  const service = await testApp(db, { ...(await production(db)), ...settings } as object)
  stop()
  const document = (await service.send({ url: '/openapi.json', scopes: null })).json()
  return { service, live, document, ...reader(document) }
}

/** Calls `see` for each route of every app that is created before the returned function is called. */
function onEveryRoute(see: (route: RouteOptions) => void): () => void {
  const hook = (message: unknown) => (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', see)
  diagnostics.subscribe('fastify.initialization', hook)
  return () => diagnostics.unsubscribe('fastify.initialization', hook)
}

function reader(document: Json): Pick<Documented, 'operations' | 'at' | 'resolve' | 'inlined' | 'compile' | 'check'> {
  // Tolerates rounding errors: in binary floating point, 24.5 is not an exact multiple of 0.01.
  const ajv = formats.default(new Ajv2020({ strict: false, allErrors: true, multipleOfPrecision: 6 }))
  ajv.addSchema({ ...document, $id: 'openapi.json' })
  const compiled = new Map<string, ValidateFunction>()
  /** Compiles each schema only once, because compiling takes longer than most requests. */
  const compile = (schema: Json): ValidateFunction => {
    const text = JSON.stringify(schema).replaceAll('"#/', '"openapi.json#/')
    const known = compiled.get(text) ?? ajv.compile(JSON.parse(text))
    compiled.set(text, known)
    return known
  }
  const at = (pointer: string): Json =>
    pointer
      .slice(2)
      .split('/')
      .reduce((value: Json, part) => value?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], document)
  return {
    at,
    compile,
    inlined: (schema) => JSON.parse(JSON.stringify(schema), (_, value) => (value?.$ref ? at(value.$ref) : value)),
    resolve: (value) =>
      value.$ref ? { ...at(value.$ref), ...(value.description && { description: value.description }) } : value,
    operations: () =>
      Object.entries<Json>(document.paths).flatMap(([path, item]) =>
        methods.filter((method) => item[method]).map((method) => ({ path, method, operation: item[method] })),
      ),
    check: (schema, value, where) => {
      const validate = compile(schema)
      assert.ok(validate(value), `${where}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`)
    },
  }
}

async function production(db: Database) {
  const keys = await signingKeys({ db, sealer: seal, now: Date.now })
  const report = (error: unknown) => assert.fail(String(error))
  const origin = { issuer: baseUrl, audience: baseUrl, scopes: builtIn.scopes }
  const tokens = { ...origin, db, keys, now: Date.now, sealer: seal, accessTokenSeconds: 900 }
  const { login, frame } = createUserParts({ ...tokens, random: randomBytes, ...looks })
  const address = () => '127.0.0.1'
  const provider = { current: authorizationServer({ ...tokens, login, frame, address, report }) }
  const many = { calls: 100_000, seconds: 60 }
  const rules = { general: many, anonymous: many, token: many, quotas: { requests: 100_000, reports: 1_000 } }
  return { provider, baseUrl, version, rules }
}

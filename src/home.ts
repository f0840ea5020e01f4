import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { quality } from './http/headers/accept.ts'
import { html, type Markup } from './http/pages/html.ts'
import type { Frame } from './http/pages/layout.ts'

export interface HomeOptions {
  frame: Frame
  /** Paths of the served resource lists, by name. */
  resources: Readonly<Record<string, string>>
  /** The paths of the OpenAPI documents. */
  documents: readonly string[]
  /** Whether this process runs the authorization server. */
  hasDiscovery: boolean
  hasConsole: boolean
  /** The Plinth release. */
  version: string
}

const Link = Type.Object({ href: Type.String() })
const links = (description: string, name: string, href: string) =>
  Type.Object({}, { additionalProperties: Link, description, examples: [{ [name]: { href } }] })
const Index = Type.Object({
  name: Type.String({ examples: ['Plinth'] }),
  version: Type.String({ description: 'The release of Plinth', examples: ['0.1.0'] }),
  resources: links('The resource lists, by name', 'products', '/products'),
  _links: links('Documentation, health and discovery', 'docs', '/docs'),
})

const discoveryPath = '/.well-known/openid-configuration'

/** GET /: describes the service and links to its resources and documentation, as HTML or JSON depending on Accept. */
export const home: FastifyPluginAsync<HomeOptions> = async (app, options) => {
  const about = { operationId: 'readIndex', summary: 'Index of the service', tags: ['meta'] }
  const content = { 'application/json': { schema: Index }, 'text/html': { schema: Type.String() } }
  const schema = { ...about, response: { 200: { description: 'The index', content } } }
  const config = { scope: 'public', cache: 'public', headers: ['Content-Security-Policy', 'Vary'] } as const
  const page = options.frame('REST API', pageBody(options))
  const index = indexOf(options)
  app.get('/', { config, schema }, (request, reply) => {
    if (!prefersPage(request.headers.accept)) return reply.send(index)
    return reply.type('text/html; charset=utf-8').header('content-security-policy', page.policy).send(page.html)
  })
}

/** Returns true if Accept prefers HTML, as browsers do. */
const prefersPage = (accept = '*/*') => quality(accept, 'text/html') > quality(accept, 'application/json')

function indexOf({ resources, documents, hasDiscovery, hasConsole, version }: HomeOptions) {
  const [openapi = '', ...ofVersions] = documents
  const places: Record<string, string> = {
    docs: '/docs',
    ...(hasConsole && { console: '/console' }),
    openapi,
    ...Object.fromEntries(ofVersions.map((path) => [`openapi-${path.split('/')[1]}`, path])),
    problems: '/problems',
    health: '/readyz',
    ...(hasDiscovery && { discovery: discoveryPath }),
  }
  return { name: 'Plinth', version, resources: hrefs(resources), _links: hrefs(places) }
}

const hrefs = (paths: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(paths).map(([name, href]) => [name, { href }]))

function pageBody({ resources, documents, hasDiscovery, hasConsole }: HomeOptions): Markup {
  const names = Object.keys(resources).map((name) => name.replaceAll('-', ' '))
  const things = new Intl.ListFormat('en').format([...names, 'reports', 'webhooks'])
  return html`<p class="lead">An HTTP API for programs: ${things}, with access by OAuth 2.0.</p>
<dl>
${entry('Documentation to read and try out', ['/docs'])}
${hasConsole && entry('Console for operators', ['/console'])}
${entry('OpenAPI documents, for tools', documents)}
${entry('Error codes', ['/problems'])}
${entry('Health', ['/livez', '/readyz'])}
${hasDiscovery && entry('OAuth 2.0 and OpenID Connect discovery', [discoveryPath])}
</dl>
<p class="small">Clients that accept <code>application/json</code> get this index as JSON.</p>`
}

const entry = (title: string, paths: readonly string[]): Markup =>
  html`<dt>${title}</dt>
${paths.map((path) => html`<dd><a href="${path}">${path}</a></dd>`)}`

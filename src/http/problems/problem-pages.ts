import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { quality } from '../headers/accept.ts'
import { html, type Markup } from '../pages/html.ts'
import type { Frame } from '../pages/layout.ts'
import { documentedRules } from '../partial-schema.ts'
import { kebabOf, Problem, type ProblemCode, problems, problemUrl } from './problem.ts'
import { exampleResponse } from './problem-examples.ts'
import { explanations } from './problem-explanations.ts'

const codes = Object.keys(problems) as ProblemCode[]
const byName = new Map(codes.map((code) => [kebabOf(code), code]))

const ProblemType = Type.Object({
  type: Type.String({ format: 'uri', examples: ['https://localhost:8443/problems/resource-not-found'] }),
  title: Type.String({ examples: [problems.RESOURCE_NOT_FOUND[1]] }),
  status: Type.Integer({ examples: [404] }),
  errorCode: Type.String({ enum: codes, examples: ['RESOURCE_NOT_FOUND'] }),
})

export interface ProblemPagesOptions {
  baseUrl: string
  /** Layout of the pages. */
  frame: Frame
}

const config = { scope: 'public', cache: 'public', headers: ['Content-Security-Policy', 'Vary'] } as const

/** Serves GET /problems and /problems/{code}, which explain error codes as HTML pages or as JSON, depending on Accept. */
export const problemPages: FastifyPluginAsync<ProblemPagesOptions> = async (app, { baseUrl, frame }) => {
  const typeOf = (code: ProblemCode) => {
    const [status, title] = problems[code]
    return { type: problemUrl(baseUrl, code), title, status, errorCode: code }
  }
  const send = (reply: FastifyReply, title: string, body: Markup) => {
    const page = frame(title, body, { isWide: true })
    return reply.type('text/html; charset=utf-8').header('content-security-policy', page.policy).send(page.html)
  }

  const list = { operationId: 'listProblemTypes', summary: 'List the error codes', tags: ['meta'] }
  const all = { schema: { ...list, response: answer('The error codes', Type.Array(ProblemType)) }, config }
  app.get('/problems', all, async ({ headers }, reply) =>
    prefersJson(headers.accept) ? codes.map(typeOf) : send(reply, 'Error codes', listBody()),
  )

  const read = { operationId: 'readProblemType', summary: 'Explain an error code', tags: ['meta'] }
  const params = Type.Object({
    code: Type.String({ description: 'An errorCode in kebab-case', ...documentedRules({ enum: [...byName.keys()] }) }),
  })
  const one = { schema: { ...read, params, response: answer('The explanation', ProblemType) }, config }
  app.get<{ Params: { code: string } }>('/problems/:code', one, async (request, reply) => {
    const code = byName.get(request.params.code)
    if (code === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'This error code does not exist')
    if (prefersJson(request.headers.accept)) return typeOf(code)
    return send(reply, problems[code][1], explanationBody(baseUrl, code))
  })
}

const answer = (description: string, schema: object) => ({
  200: { description, content: { 'text/html': { schema: Type.String() }, 'application/json': { schema } } },
})

/** Returns true only if JSON has the higher weight, because developers open the links in error bodies in a browser. */
const prefersJson = (accept = '*/*') => quality(accept, 'application/json') > quality(accept, 'text/html')

const path = (code: ProblemCode) => `/problems/${kebabOf(code)}`

function listBody(): Markup {
  const rows = codes.map((code) => {
    const [status, title] = problems[code]
    return html`<tr><td>${status}</td><td><a href="${path(code)}"><code>${code}</code></a><br>${title}</td></tr>`
  })
  return html`<p class="lead">Each error has one of these codes as <code>errorCode</code>, and in the header
<code>X-Error-Code</code>. The meaning of a code never changes.</p>
<table>
<thead><tr><th scope="col">Status</th><th scope="col">Code</th></tr></thead>
<tbody>
${rows}
</tbody>
</table>
<nav class="back"><a href="/docs">API reference</a></nav>`
}

function explanationBody(baseUrl: string, code: ProblemCode): Markup {
  const [meaning, advice] = explanations[code]
  return html`<p class="lead">HTTP status <strong>${problems[code][0]}</strong>, error code <code>${code}</code></p>
<h2>What it means</h2>
<p>${meaning}</p>
<h2>What to do</h2>
<p>${advice}</p>
<h2>Example</h2>
<pre tabindex="0">${exampleResponse(baseUrl, code)}</pre>
<nav class="back"><a href="/problems">All error codes</a><a href="/docs">API reference</a></nav>`
}

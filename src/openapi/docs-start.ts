export interface DocsStart {
  /** The documents on the page: titles by path. The page initially shows the first document. */
  documents: Readonly<Record<string, { title: string }>>
  /** Public URL of the service. */
  baseUrl: string
  /** The public client through which users log in from the page; null if login is unavailable. */
  clientId: string | null
  /** Lists suggested for a first request, and whether each list is public. */
  firstCalls: readonly { path: string; isPublic: boolean }[]
}

/** Returns the script that initializes the API reference with its documents and with login from the page. */
export function startScriptOf({ documents, baseUrl, clientId, firstCalls }: DocsStart): string {
  const sources = Object.entries(documents).map(([url, { title }]) => ({
    url,
    title,
    slug: title.toLowerCase().replaceAll(' ', '-'),
  }))
  const known = {
    configuration: { ...configuration, sources },
    clientId,
    start: startHere(baseUrl, clientId, firstCalls),
  }
  return `const known = ${JSON.stringify(known, null, 2)}\n${script}`
}

/**
 * The settings of the API reference. They disable every feature that would contact another host; the page's CSP would
 * block such requests anyway.
 */
const configuration = {
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'direct',
  authentication: { preferredSecurityScheme: 'oauth2' },
}

/**
 * Returns Markdown that explains how to get a token and make the first call. It precedes the description of each
 * document.
 */
function startHere(baseUrl: string, clientId: string | null, calls: DocsStart['firstCalls']): string {
  const open = calls.find(({ isPublic }) => isPublic)
  const call = calls.find(({ isPublic }) => !isPublic) ?? calls[0]
  const token = `curl -u CLIENT_ID:CLIENT_SECRET \\\n  -d grant_type=client_credentials \\\n  ${baseUrl}/oauth/token`
  const first = `curl -H "Authorization: Bearer ACCESS_TOKEN" \\\n  ${baseUrl}${call?.path ?? '/api/usage'}`
  const login = `On this page: press **Authorize** in the *Authentication* box and log in as the administrator whose e-mail
address and password were printed at the first start. Then press **Test Request** on any operation.`
  const steps = [
    '## Start here',
    ...(clientId === null ? [] : [login]),
    'In a terminal: get a token with the id and secret of a client, then send it with each request.',
    `\`\`\`sh\n${token}\n${first}\n\`\`\``,
    clientId === null
      ? 'An administrator registers clients: `plinth clients create`, or `POST /api/clients`.'
      : 'The first start printed a client, and the certificate file that `curl` needs to trust the service: add `--cacert FILE`.',
    ...(open ? [`Some lists require no token: [${open.path}](${baseUrl}${open.path}).`] : []),
    `Errors: see the [error codes](${baseUrl}/problems). An exceeded rate limit (\`429\`) or quota (\`403\`) has the body\n\`{"error": "…"}\`, regardless of Accept.`,
  ]
  return steps.join('\n\n')
}

/**
 * Runs in the browser. Fetches the documents, inserts the introduction before each description, and removes the link to
 * this page. If login is available, lists it first in the *Authorize* dialog.
 */
const script = `
const withLogin = ({ flows, ...scheme }) => {
  const { authorizationCode, ...others } = flows
  const client = {
    'x-scalar-client-id': known.clientId,
    'x-usePkce': 'SHA-256',
    'x-scalar-credentials-location': 'body',
    'x-scalar-redirect-uri': location.origin + '/docs',
  }
  return {
    ...scheme,
    flows: { authorizationCode: { ...authorizationCode, ...client }, ...others },
    'x-default-scopes': Object.keys(authorizationCode.scopes),
  }
}

// The page sends the example of every parameter with each request. Examples of optional parameters are removed, because
// they would act as unintended filters.
const withoutExample = (parameter) => {
  if (parameter.required) return parameter
  const { example, ...rest } = parameter
  return rest
}

const withoutExamples = (value) => {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(withoutExamples)
  const members = Object.entries(value).map(([name, inner]) => [name, withoutExamples(inner)])
  const copy = Object.fromEntries(members)
  return typeof value.in === 'string' && 'schema' in value ? withoutExample(copy) : copy
}

const withStart = ({ externalDocs, ...document }) => {
  const { oauth2, ...others } = document.components.securitySchemes
  const schemes = known.clientId === null ? { oauth2, ...others } : { oauth2: withLogin(oauth2), ...others }
  return {
    ...document,
    info: { ...document.info, description: known.start + '\\n\\n## About this API\\n\\n' + document.info.description },
    paths: withoutExamples(document.paths),
    components: {
      ...document.components,
      parameters: withoutExamples(document.components.parameters),
      securitySchemes: schemes,
    },
  }
}

const paths = known.configuration.sources.map(({ url }) => url)

Scalar.createApiReference('#reference', {
  ...known.configuration,
  fetch: async (input, init) => {
    const response = await fetch(input, init)
    const { pathname } = new URL(response.url)
    if (!response.ok || !paths.includes(pathname)) return response
    return Response.json(withStart(await response.json()))
  },
})
`

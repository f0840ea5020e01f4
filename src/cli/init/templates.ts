/** The values to insert into the generated files. */
export interface TemplateValues {
  /** The name of the package. */
  name: string
  /** The dependency on this package: a version range, or `file:` and a path. */
  plinth: string
  typescript: string
  nodeTypes: string
  /** The secret of the client for development. */
  secret: string
}

/** The path of the definition, as the test imports it. */
const definition = './service.ts'

const service = `import { collection, Line, service, Text, Title, Type } from 'plinth'

const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({
    title: Title,
    topic: Type.Optional(Line(1, 50)),
    text: Type.Optional(Text()),
  }),
  filters: ['topic'],
  search: ['title', 'text'],
  sorts: ['title'],
})

export default service({ resources: [notes] })
`

const test = `import assert from 'node:assert/strict'
import { it } from 'node:test'
import { testService } from 'plinth/testing'
import definition from '${definition}'

it('lists the notes on a topic', async () => {
  await using service = await testService(definition)
  const client = await service.as()
  await client.post('/v2/notes', { title: 'Milk', topic: 'shopping' }).expect(201)
  await client.post('/v2/notes', { title: 'Call Ada', topic: 'work' }).expect(201)
  const { items } = await client.get<{ items: { title: string }[] }>('/v2/notes?topic=shopping').expect(200)
  assert.deepEqual(
    items.map(({ title }) => title),
    ['Milk'],
  )
})

it('422 for a note without a title', async () => {
  await using service = await testService(definition)
  const client = await service.as()
  await client.post('/v2/notes', { title: '' }).expect(422)
})
`

const packageJson = ({ name, plinth, typescript, nodeTypes }: TemplateValues) =>
  `${JSON.stringify(
    {
      name,
      version: '0.1.0',
      private: true,
      type: 'module',
      engines: { node: '>=24' },
      scripts: { start: 'plinth serve', dev: 'plinth serve --watch', test: 'node --test', types: 'tsc --noEmit' },
      dependencies: { plinth },
      // The package is installed already built, so npm need not run its scripts.
      allowScripts: { plinth: false },
      devDependencies: { '@types/node': nodeTypes, typescript },
    },
    null,
    2,
  )}\n`

const tsconfig = `{
  "compilerOptions": {
    "target": "es2024",
    "module": "nodenext",
    "types": ["node"],
    "noEmit": true,
    "strict": true,
    "erasableSyntaxOnly": true,
    "verbatimModuleSyntax": true,
    "allowImportingTsExtensions": true,
    "noUncheckedIndexedAccess": true,
    "skipLibCheck": true
  },
  "exclude": ["data", "node_modules"]
}
`

const env = ({ secret }: TemplateValues) => `# Settings for development; \`npx plinth settings\` lists all settings.
# Plain HTTP, for this machine only.
PLINTH_TLS=off
# A client that has every scope.
PLINTH_BOOTSTRAP_CLIENT_ID=developer
PLINTH_BOOTSTRAP_CLIENT_SECRET=${secret}
`

const dockerfile = `# docker build -t my-service .
# docker run --read-only --tmpfs /tmp --cap-drop ALL -v my-data:/data -p 8443:8443 \\
#   -e PLINTH_BASE_URL=https://api.example.com:8443 my-service

FROM node:24-slim
WORKDIR /app
# The second pattern is for a dependency that is a file.
COPY package.json package-lock.json *.tgz ./
RUN npm ci --omit=dev --ignore-scripts
COPY . .
# The only folder that the service writes to.
RUN mkdir -m 0700 /data && chown 10001:10001 /data
VOLUME /data
ENV NODE_ENV=production PLINTH_PROFILE=production PLINTH_DATA_DIR=/data PLINTH_PORT=8443 PLINTH_HTTP_PORT=8080 HOME=
EXPOSE 8443 8080
USER 10001:10001
ENTRYPOINT ["/app/node_modules/.bin/plinth"]
CMD ["serve"]
`

const ignored = ['.env', 'data', 'node_modules']

const lines = (values: readonly string[]) => values.map((value) => `${value}\n`).join('')

/** Returns the contents of a new service's files, by file name. */
export const filesOf = (values: TemplateValues): Readonly<Record<string, string>> => ({
  'package.json': packageJson(values),
  'tsconfig.json': tsconfig,
  'service.ts': service,
  'service.test.ts': test,
  '.env': env(values),
  '.gitignore': lines(ignored),
  '.dockerignore': lines([...ignored, '.git', 'Dockerfile']),
  Dockerfile: dockerfile.replaceAll('my-service', () => values.name),
})

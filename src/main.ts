import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { failureText } from './cli/failure-text.ts'
import type { LoadedDefinition } from './cli/load-definition.ts'
import { settingsTable } from './cli/print.ts'
import { type Config, readConfig, unknownSettings } from './config/config.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

let cached: Config | undefined
/** Returns the configuration, which is read only once; prints warnings about unknown settings. */
function configuration(): Config {
  if (cached) return cached
  cached = readConfig(process.env)
  for (const text of unknownSettings(cached)) process.stderr.write(`plinth: ${text}\n`)
  return cached
}
const definitionHelp =
  'file whose default export is a service(); default: PLINTH_DEFINITION, "plinth" in package.json, or ./service.ts'

/** Loads the definition. If the file was found rather than specified, prints its name. */
async function definition(config: Config, named?: string): Promise<LoadedDefinition> {
  const { findDefinition, loadDefinition } = await import('./cli/load-definition.ts')
  const { trackImports } = await import('./cli/imported-files.ts')
  const { file, isFound } = findDefinition(named ?? config.service.definitionFile, process.cwd())
  if (isFound) process.stderr.write(`plinth: using the definition ${file}\n`)
  if (file === null) return { file, definition: await loadDefinition(file), imported: new Set() }
  const { files, stop } = trackImports(resolve(file))
  return { file, definition: await loadDefinition(file).finally(stop), imported: files }
}

// Commands are loaded on demand, so that help is fast and `serve` does not load the demo.
const program = new Command('plinth')
  .description('A self-hosted REST service: resources, reports, webhooks and an OAuth 2.0 server behind one address')
  .version(version)
  .addHelpText('after', '\nSettings are read from the environment and from .env; `plinth settings` lists them.')
program
  .command('init')
  .argument('<folder>', 'the folder to create; an existing folder must be empty')
  .option('--no-install', 'do not run npm install')
  .description('Create a new service: package.json, service.ts with a test, .env and a Dockerfile')
  .action(async (folder, options) => (await import('./cli/init/init.ts')).init(folder, options))
program
  .command('serve')
  .argument('[definition]', definitionHelp)
  .description('Start the service; the first run creates its database, keys and certificates')
  .option('--watch', 'serve the definition again after each change of its files; for development')
  .action(async (file, { watch }) => {
    const config = configuration()
    if (watch) {
      const { serveAndWatch } = await import('./cli/watch/supervisor.ts')
      return serveAndWatch({ config, named: file, env: inherited })
    }
    const { serve } = await import('./cli/serve.ts')
    await serve(config, await definition(config, file), version)
  })
// Runs in the child process that `serve --watch` starts.
program
  .command('serve-watched', { hidden: true })
  .argument('[definition]')
  .action(async (named) => {
    const { serveWatched } = await import('./cli/watch/served-process.ts')
    await serveWatched({ config: configuration(), named, version })
  })
program
  .command('migrate')
  .argument('[definition]', definitionHelp)
  .option('--plan', 'print what would be done, with the number of rows; exit code 3 if that is anything, else 0')
  .option('--history', 'print every change of the tables so far')
  .option('--tidy', 'rename the columns of renamed fields; the service must be stopped')
  .option('--allow-data-loss', 'drop fields and collections that are no longer declared; the service must be stopped')
  .description('Bring the database schema up to date and exit')
  .action(async (file, options) => {
    const config = configuration()
    const { runMigrations } = await import('./cli/migrate.ts')
    await runMigrations(config, (await definition(config, file)).definition, options)
  })
program
  .command('backup')
  .argument('<file>', 'the file to write; an existing file is refused')
  .option('--verify', 'check the backup <file> completely, and print what it contains')
  .option('--encrypt', 'ask for a passphrase; PLINTH_BACKUP_PASSPHRASE also encrypts')
  .option('--passphrase-file <path>', 'encrypt or decrypt with the passphrase in this file')
  .option('--without-keys', 'leave out the master key and the keys of certificates')
  .option('--quiet', 'print errors and warnings only')
  .option('--json', 'print the result as JSON')
  .description('Back up the database, the results and the keys to one file, also while the service runs')
  .action(async (file, options) => (await import('./cli/backup.ts')).backup(configuration(), file, options, version))
program
  .command('restore')
  .argument('<file>', 'a file that `plinth backup` wrote')
  .option('--passphrase-file <path>', 'decrypt with the passphrase in this file')
  .option('--quiet', 'print errors and warnings only')
  .option('--json', 'print the result as JSON')
  .description('Restore a backup into an empty data folder or database')
  .action(async (file, options) => (await import('./cli/backup.ts')).restore(configuration(), file, options))
program
  .command('doctor')
  .argument('[definition]', definitionHelp)
  .option('--deep', 'also verify the whole database and audit log, which takes long')
  .option('--strict', 'exit with code 1 if a check warns')
  .option('--json', 'print the result as JSON, like GET /api/health')
  .description('Check the settings, files, keys and data, also while the service runs; exit code 1 if a check fails')
  .action(async (file, options) => {
    const config = configuration()
    const { doctor } = await import('./cli/doctor.ts')
    await doctor(config, (await definition(config, file)).definition, options)
  })
program
  .command('demo')
  .description('Run the main flow: a token, a report, a signed webhook, a download')
  .action(async () => (await import('./cli/demo/demo.ts')).demo(version))
program
  .command('settings')
  .description('List every setting with its value')
  .action(() => {
    process.stdout.write(settingsTable(configuration(), process.env))
  })
const served = async () => (await definition(configuration())).definition
/** Command groups, each loaded only when it is used. */
const groups: [name: string, summary: string, load: () => Promise<Command>][] = [
  [
    'clients',
    'Register, list, update and revoke OAuth clients',
    async () => (await import('./cli/clients.ts')).clientsCommand(configuration, served),
  ],
  [
    'versions',
    'List the API versions, and the clients that still call deprecated ones',
    async () => (await import('./cli/versions.ts')).versionsCommand(configuration, served),
  ],
  [
    'nodes',
    'List the processes that use the database',
    async () => (await import('./cli/nodes.ts')).nodesCommand(configuration),
  ],
  ['jobs', 'List, retry and cancel jobs', async () => (await import('./cli/jobs.ts')).jobsCommand(configuration)],
  [
    'users',
    'Invite users, set their passwords, fields and roles, and list them',
    async () => (await import('./cli/users.ts')).usersCommand(configuration, served),
  ],
  [
    'keys',
    'Manage API keys, and rotate signing keys and the master key',
    async () => (await import('./cli/keys/command.ts')).keysCommand(configuration),
  ],
  [
    'audit',
    'Read the audit log and verify its integrity',
    async () => (await import('./cli/audit.ts')).auditCommand(configuration),
  ],
  [
    'report',
    'Create, list and cancel reports of a service',
    async () => (await import('./cli/report/command.ts')).reportCommand(configuration),
  ],
  [
    'webhooks',
    'List the webhooks of a service, receive events on this machine, and send test events',
    async () => (await import('./cli/webhooks/command.ts')).webhooksCommand(configuration),
  ],
]
for (const [name, summary, load] of groups) {
  const group = process.argv.includes(name) ? await load() : new Command(name)
  program.addCommand(group.summary(summary).description(group.description() || summary))
}

// Files that commands create are accessible only to their owner.
process.umask(0o077)
const inherited = { ...process.env }
loadDotEnv()
try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`plinth: ${failureText(error)}\n`)
  // Exit code 2 means that the environment must be fixed before the service can start.
  process.exitCode = (error as { exitCode?: number } | null)?.exitCode ?? 1
}

/** Loads `.env` from the current folder; environment variables take precedence. */
function loadDotEnv(): void {
  try {
    process.loadEnvFile()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

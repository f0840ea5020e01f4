import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { clientsCommand } from './commands/clients.ts'
import { reportCommand } from './commands/report.ts'
import { settingsTable } from './commands/settings.ts'
import { ConfigError, readConfig } from './config.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

const configuration = () => readConfig(process.env)

// Commands are loaded when they run: help is quick, and the service does not carry the demo in memory.
const program = new Command('plinth')
  .description('A self-hosted REST service: resources, reports, webhooks and an OAuth 2.0 server behind one address')
  .version(version)
  .addHelpText('after', '\nSettings come from the environment and from .env; `plinth settings` lists them.')
program
  .command('serve')
  .description('Start the service; the first run makes its database, keys and certificates')
  .action(async () => (await import('./commands/serve.ts')).serve(configuration(), version))
program
  .command('migrate')
  .description('Bring the database schema up to date and end')
  .action(async () => (await import('./commands/migrate.ts')).runMigrations(configuration()))
program
  .command('demo')
  .description('Show the main flow: a token, a report, a signed webhook, a download')
  .action(async () => (await import('./commands/demo.ts')).demo(configuration(), version))
program
  .command('settings')
  .description('List every setting with its value')
  .action(() => {
    process.stdout.write(settingsTable(configuration(), process.env))
  })
program.addCommand(clientsCommand(configuration))
program.addCommand(reportCommand(configuration))

loadDotEnv()
try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`plinth: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = error instanceof ConfigError ? 2 : 1
}

/** Settings of `.env` in the current folder, below those of the environment. */
function loadDotEnv(): void {
  try {
    process.loadEnvFile()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

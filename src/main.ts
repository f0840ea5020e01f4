import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { auditCommand } from './commands/audit.ts'
import { clientsCommand } from './commands/clients.ts'
import { keysCommand } from './commands/keys.ts'
import { reportCommand } from './commands/report.ts'
import { settingsTable } from './commands/settings.ts'
import { usersCommand } from './commands/users.ts'
import { webhooksCommand } from './commands/webhooks.ts'
import { type Config, readConfig } from './config.ts'
import type { Definition } from './definition.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

const configuration = () => readConfig(process.env)
const definitionHelp = 'file whose default export is made by service(); PLINTH_DEFINITION without it'

/** What is served: the file that is named, else the one that the settings name, else users, products and books. */
async function definition(config: Config, file?: string): Promise<Definition> {
  const { loadDefinition } = await import('./commands/definition.ts')
  return loadDefinition(file ?? config.definitionFile)
}

// Commands are loaded when they run: help is quick, and the service does not carry the demo in memory.
const program = new Command('plinth')
  .description('A self-hosted REST service: resources, reports, webhooks and an OAuth 2.0 server behind one address')
  .version(version)
  .addHelpText('after', '\nSettings come from the environment and from .env; `plinth settings` lists them.')
program
  .command('serve')
  .argument('[definition]', definitionHelp)
  .description('Start the service; the first run makes its database, keys and certificates')
  .action(async (file) => {
    const config = configuration()
    const { serve } = await import('./commands/serve.ts')
    await serve(config, await definition(config, file), version)
  })
program
  .command('migrate')
  .argument('[definition]', definitionHelp)
  .option('--plan', 'say what would be done, and do nothing')
  .description('Bring the database schema up to date and end')
  .action(async (file, options) => {
    const config = configuration()
    const { runMigrations } = await import('./commands/migrate.ts')
    await runMigrations(config, await definition(config, file), options)
  })
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
program.addCommand(clientsCommand(configuration, () => definition(configuration())))
for (const command of [usersCommand, keysCommand, auditCommand, reportCommand, webhooksCommand]) {
  program.addCommand(command(configuration))
}

loadDotEnv()
try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`plinth: ${error instanceof Error ? error.message : String(error)}\n`)
  // 2 where something outside of the service must be set right before it can start.
  process.exitCode = (error as { exitCode?: number } | null)?.exitCode ?? 1
}

/** Settings of `.env` in the current folder, below those of the environment. */
function loadDotEnv(): void {
  try {
    process.loadEnvFile()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

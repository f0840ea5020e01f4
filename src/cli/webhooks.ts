import { Command } from 'commander'
import type { Config } from '../config/config.ts'
import { asClient } from './clients.ts'

const listenHelp = `
The endpoint is on this machine's loopback address, so the service must run here and allow such addresses, as it does in
the development profile. Each call is verified, shown as one line and passed on with the same headers and bytes; what the
other side answers, the service is answered. Ctrl-C or SIGTERM removes the endpoint and ends with exit code 0; 1 means that
something failed.`

/** `plinth webhooks list|listen|trigger`: a client of a local or remote service. */
export function webhooksCommand(configuration: () => Config): Command {
  const webhooks = new Command('webhooks')
  asClient(webhooks.command('list'))
    .description('List your webhooks, newest first')
    .option('--json', 'as JSON')
    .action(async (options) => (await import('./webhooks-actions.ts')).listWebhooks(configuration(), options))
  asClient(webhooks.command('listen'))
    .description('Receive events on this machine for as long as the command runs')
    .option('--forward <url>', 'where to pass them on to, such as http://localhost:3000/hook')
    .option('--events <event>', "what to hear of: a name such as report.completed, 'report.*', or '*'", '*')
    .addHelpText('after', listenHelp)
    .action(async (options) => (await import('./webhooks-listen.ts')).listen(configuration(), options))
  asClient(webhooks.command('trigger'))
    .description('Send the example of an event to one of your webhooks, as a test')
    .argument('<event>', 'such as report.completed')
    .option('--webhook <id>', 'which one; without it, your newest active one that hears of the event')
    .addHelpText('after', '\nExit code 0 when the call was answered with 2xx, 1 when it was not.')
    .action(async (event, options) => (await import('./webhooks-actions.ts')).trigger(configuration(), event, options))
  return webhooks
}

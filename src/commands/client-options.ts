import { type Command, InvalidArgumentError } from 'commander'

/** Gives a command the options of a client of a service. */
export const asClient = (command: Command): Command =>
  command
    .option('--base-url <url>', 'where the service is (without it, that of these settings)', address)
    .option('--client-id <id>', 'the client to be; PLINTH_CLIENT_ID without it')
    .option('--client-secret <secret>', 'its secret; better in PLINTH_CLIENT_SECRET, where others do not see it')

function address(text: string): string {
  const url = URL.parse(text)
  if (url && /^https?:$/.test(url.protocol)) return text
  throw new InvalidArgumentError('It must be a URL such as https://api.example.com.')
}
